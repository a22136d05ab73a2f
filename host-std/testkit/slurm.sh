#!/bin/sh
# Brings up Slurm on this machine for tests: one munged, one controller, and one node or SLURM_TEST_NODES
# nodes of that many daemons, all on loopback, with everything they write in one directory.
#
#   slurm.sh start DIRECTORY    then  SLURM_CONF=DIRECTORY/slurm.conf srun --mpi=pmi2 -n 2 PROGRAM
#   slurm.sh stop DIRECTORY
#
# Needs Debian's packages slurm-wlm and munge, and root. It ends only what it started, by number.
set -eu

usage() {
    echo "slurm.sh: say 'slurm.sh start DIRECTORY' or 'slurm.sh stop DIRECTORY'" >&2
    exit 2
}

# The number of a daemon that has written it to a file, if it runs.
number() {
    number=$(cat "$1" 2>/dev/null) && kill -0 "$number" 2>/dev/null && echo "$number"
}

# Ends the processes whose numbers are in these files, all at the same time.
end() {
    numbers=
    for file; do
        if number=$(number "$file"); then
            kill "$number"
            numbers="$numbers $number"
        fi
    done
    turns=0
    for number in $numbers; do
        while kill -0 "$number" 2>/dev/null && [ "$turns" -lt 50 ]; do
            sleep 0.1
            turns=$((turns + 1))
        done
        kill -9 "$number" 2>/dev/null || true
    done
}

stop() {
    end "$directory"/slurmd.*.pid "$directory/slurmctld.pid"
    end "$directory/munged.pid"
    for groups in /sys/fs/cgroup/*/slurm_"$site"*; do
        [ ! -d "$groups" ] || find "$groups" -depth -type d -exec rmdir {} + || true
    done
}

fail() {
    echo "slurm.sh: $1; see the logs in $directory" >&2
    stop
    exit 1
}

start() {
    for program in munged slurmctld slurmd srun; do
        PATH=$PATH:/usr/sbin command -v "$program" >/dev/null ||
            fail "there is no $program; Debian's packages slurm-wlm and munge bring it"
    done
    mkdir -p "$directory/state" "$directory/spool"
    # munged trusts no directory that others may write to.
    chmod 700 "$directory"
    host=$(hostname -s)
    if [ "$count" -gt 1 ]; then
        # Names that are none of this machine, as far as its resolver is concerned.
        nodes="slurm[1-$count]"
        ports="[$((port + 1))-$((port + count))]"
    else
        nodes=$host
        ports=$((port + 1))
    fi
    [ -s "$directory/munge.key" ] || head -c 128 /dev/urandom >"$directory/munge.key"
    chmod 600 "$directory/munge.key"
    cat >"$directory/slurm.conf" <<END
ClusterName=conform
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
CommunicationParameters=NoInAddrAny
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$directory/munge.socket
CredType=cred/munge
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool/%n
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd.%n.pid
SlurmctldLogFile=$directory/slurmctld.log
SlurmdLogFile=$directory/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=${SLURM_TEST_TASKS:-task/none}
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=pmi2
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
InactiveLimit=0
NodeName=$nodes NodeHostname=$host NodeAddr=127.0.0.1 Port=$ports CPUs=16 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:8
END
    case ${SLURM_TEST_POLICY:-} in
    # Jobs of the second partition end those of the first one, which have some time for that.
    preempt)
        cat >>"$directory/slurm.conf" <<END
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=30 MaxTime=10 State=UP OverSubscribe=NO
PartitionName=high Nodes=ALL PriorityTier=9 PreemptMode=OFF MaxTime=10 State=UP OverSubscribe=NO
END
        ;;
    # Jobs that share processors run in turns, and jobs of the second partition suspend those of the first one.
    gang)
        cat >>"$directory/slurm.conf" <<END
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
SchedulerTimeSlice=5
PartitionName=low Nodes=ALL PriorityTier=1 MaxTime=10 State=UP OverSubscribe=FORCE:2
PartitionName=high Nodes=ALL PriorityTier=9 MaxTime=10 State=UP OverSubscribe=FORCE:1
END
        ;;
    # Each node has four devices, and memory that jobs may request.
    gpus)
        sed -i "s|^NodeName=.*|& RealMemory=4000 Gres=gpu:4|" "$directory/slurm.conf"
        echo GresTypes=gpu >>"$directory/slurm.conf"
        for gpu in 0 1 2 3; do
            ln -sf /dev/null "$directory/gpu$gpu"
        done
        echo "Name=gpu File=$directory/gpu[0-3]" >"$directory/gres.conf"
        ;;
    # As many sites have it. Groups of processors have the name of the node, which no other test has.
    site)
        sed -i "s|^ProctrackType=.*|ProctrackType=proctrack/cgroup|; s|^TaskPlugin=.*|TaskPlugin=task/cgroup|
            s| CPUs=16 | CPUs=2 |; s|^NodeName=slurm|NodeName=$site|" "$directory/slurm.conf"
        nodes="$site[1-$count]"
        printf 'TaskProlog=%s\nPrologFlags=X11\n' "$directory/task-prolog" >>"$directory/slurm.conf"
        printf 'CgroupPlugin=cgroup/v1\nConstrainCores=yes\n' >"$directory/cgroup.conf"
        cat >"$directory/task-prolog" <<'END'
#!/bin/sh
echo "export PROLOG=of-$SLURMD_NODENAME"
echo "export BOTH=of-$SLURMD_NODENAME"
echo "unset GONE"
echo "print a line of the prolog"
END
        chmod 755 "$directory/task-prolog"
        ;;
    esac
    # --force: its own directory is safe, the ones above are as the system has them.
    munged --force --key-file="$directory/munge.key" --socket="$directory/munge.socket" \
        --pid-file="$directory/munged.pid" --log-file="$directory/munged.log" \
        --seed-file="$directory/munge.seed" || fail "munged does not start"
    export SLURM_CONF="$directory/slurm.conf"
    slurmctld -c -f "$directory/slurm.conf" || fail "the controller does not start"
    for node in $(scontrol show hostnames "$nodes"); do
        mkdir -p "$directory/spool/$node"
        slurmd -f "$directory/slurm.conf" -N "$node" || fail "the node $node does not start"
    done
    turns=0
    until timeout 10 srun --immediate=5 -N "$count" true 2>/dev/null; do
        turns=$((turns + 1))
        [ "$turns" -lt 10 ] || fail "no job runs"
        sleep 1
    done
    echo "export SLURM_CONF=$SLURM_CONF"
}

[ $# = 2 ] || usage
PATH=$PATH:/usr/sbin
directory=$(mkdir -p "$2" && cd "$2" && pwd)
# Above the ports of an installed Slurm, below those that the system gives out.
port=${SLURM_TEST_PORT:-26817}
count=${SLURM_TEST_NODES:-1}
site=site$port-
case $1 in
start) start ;;
stop) stop ;;
*) usage ;;
esac
