#!/bin/sh
# Runs a batch job under Grid Engine on this machine, for tests: one master, and COUNT hosts ge1, ge2, … that
# are network namespaces with an execution daemon each.
#
#   gridengine.sh DIRECTORY COUNT SLOTS SCRIPT    prints the output of the job, which has SLOTS slots on each host
#
# With GRID_ENGINE_SUBMITS=1 the script is none of a job: it runs on the host of the master and submits jobs itself.
#
# Needs Debian's packages gridengine-master, gridengine-exec, gridengine-client and iproute2, and root. All of
# it is in namespaces of this script and ends with it; what it writes is in DIRECTORY and in memory.
set -eu

fail() {
    echo "gridengine.sh: $1; see the logs in $directory" >&2
    {
        qstat -f
        qstat -j '*'
        cat "$spool"/*/messages "$spool"/*/*/messages
    } >"$directory/master.log" 2>&1 || true
    exit 1
}

# Waits up to 60 s for a command to succeed.
await() {
    turns=0
    until "$@" >"$directory/await.log" 2>&1; do
        turns=$((turns + 1))
        [ "$turns" -lt 300 ] || fail "'$*' does not succeed"
        sleep 0.2
    done
}

has_hosts() {
    # Three lines of headings and the sum; hosts that have not reported yet have no architecture.
    [ "$(qhost | tail -n +4 | grep -c lx-)" = "$count" ]
}

# Files of a fresh cell, in place of those of the packages.
create_cell() {
    shipped=$(mktemp -d)
    cp -a "$SGE_ROOT/." "$shipped"
    mount -t tmpfs -o mode=755 cell "$SGE_ROOT"
    cp -a "$shipped/." "$SGE_ROOT"
    rm -r "$shipped"
    mount -t tmpfs -o mode=755 spool "$spool"
    mkdir "$spool/qmaster" "$spool/qmaster/job_scripts" "$spool/spooldb" "$spool/execd"
    mkdir "$spool/tmp"
    echo ge0 >"$SGE_ROOT/$SGE_CELL/common/act_qmaster"
    chown -R sgeadmin:sgeadmin "$spool" "$SGE_ROOT/$SGE_CELL"
    su -s /bin/sh sgeadmin -c "'$scripts/init_cluster' '$SGE_ROOT' '$SGE_CELL' '$spool/spooldb' sgeadmin" \
        >"$directory/cell.log" 2>&1 || fail "the cell cannot be created"
}

# The master is ge0; names are those of a file of this mount namespace.
create_hosts() {
    echo "127.0.0.1 localhost" >"$directory/hosts"
    for host in $(seq 0 "$count"); do
        echo "10.88.0.$((host + 1)) ge$host" >>"$directory/hosts"
    done
    mount --bind "$directory/hosts" /etc/hosts
    mkdir -p /run/netns
    mount -t tmpfs names /run/netns
    hostname ge0
    ip link set lo up
    ip link add br0 type bridge
    ip addr add 10.88.0.1/24 dev br0
    ip link set br0 up
    for host in $(seq "$count"); do
        ip netns add "ge$host"
        ip -n "ge$host" link set lo up
        ip link add "v$host" type veth peer name eth0 netns "ge$host"
        ip link set "v$host" master br0 up
        ip -n "ge$host" addr add "10.88.0.$((host + 1))/24" dev eth0
        ip -n "ge$host" link set eth0 up
    done
}

start() {
    ulimit -n 1024
    sge_qmaster >"$directory/master.start.log" 2>&1 || fail "the master does not start"
    await qconf -sh
    # Also jobs of root, and at once. The daemons of hosts read this when they start.
    {
        qconf -sconf | sed "s/^min_uid.*/min_uid 0/; s/^min_gid.*/min_gid 0/" >"$directory/global"
        qconf -Mconf "$directory/global"
        qconf -ssconf | sed "s/^schedule_interval.*/schedule_interval 0:0:1/" >"$directory/scheduler"
        qconf -Msconf "$directory/scheduler"
    } >"$directory/settings.log" 2>&1 || fail "the settings cannot be changed"
    names=$(seq -f 'ge%.0f' -s , "$count")
    su -s /bin/sh sgeadmin -c "qconf -ah '$names'; qconf -as 'ge0,$names'" >"$directory/admit.log" 2>&1 ||
        fail "the hosts cannot be admitted"
    for host in $(seq "$count"); do
        # Each host has directories of jobs of its own: in common ones, the end of a task on one host would
        # remove that of all.
        ip netns exec "ge$host" unshare --uts --mount sh -ec "hostname ge$host
            mount -t tmpfs -o mode=1777 tmp $spool/tmp; exec sge_execd" \
            >"$directory/host$host.log" 2>&1 || fail "the daemon of ge$host does not start"
    done
    await has_hosts
    for name in make smp mpi; do
        cat >"$directory/pe" <<END
pe_name $name
slots 9999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $slots
control_slaves TRUE
job_is_first_task FALSE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
END
        qconf -Ap "$directory/pe" >>"$directory/queue.log" 2>&1 || fail "no parallel environment"
    done
    # An editor that changes nothing accepts the defaults. A busy machine takes jobs as well.
    {
        EDITOR=true qconf -ahgrp @allhosts
        printf 'group_name @allhosts\nhostlist %s\n' "$(seq -f 'ge%.0f' -s ' ' "$count")" >"$directory/group"
        qconf -Mhgrp "$directory/group"
        EDITOR=true qconf -aq all.q
        qconf -sq all.q | sed "s/^hostlist.*/hostlist @allhosts/; s/^slots .*/slots $slots/
            s/^load_thresholds.*/load_thresholds NONE/; s/^pe_list.*/pe_list mpi/
            s|^tmpdir .*|tmpdir $spool/tmp|" >"$directory/queue"
        qconf -Mq "$directory/queue"
    } >>"$directory/queue.log" 2>&1 || fail "no queue"
}

[ $# = 4 ] || {
    echo "usage: gridengine.sh DIRECTORY COUNT SLOTS SCRIPT" >&2
    exit 2
}
if [ -z "${GRID_ENGINE_INSIDE:-}" ]; then
    export GRID_ENGINE_INSIDE=1
    exec unshare --mount --propagation private --net --uts --pid --fork --kill-child --mount-proc "$0" "$@"
fi
PATH=$PATH:/usr/sbin
directory=$(mkdir -p "$1" && cd "$1" && pwd)
count=$2
slots=$3
script=$4
spool=/var/spool/gridengine
scripts=/usr/share/gridengine/scripts
# The ports are those of a network namespace.
export SGE_ROOT=/var/lib/gridengine SGE_CELL=default SGE_QMASTER_PORT=6444 SGE_EXECD_PORT=6445
create_hosts
create_cell
start
rm -f "$directory/output"
[ -z "${GRID_ENGINE_SUBMITS:-}" ] || exec timeout "${GRID_ENGINE_WITHIN:-300}" sh "$script"
timeout "${GRID_ENGINE_WITHIN:-300}" qsub -sync y -pe mpi $((count * slots)) -S /bin/sh -j y -o "$directory/output" "$script" \
    >"$directory/job.log" 2>&1 || fail "the job does not end"
cat "$directory/output"
