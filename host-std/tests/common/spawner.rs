//! A rank that spawns jobs by PMI-1, as a shell script.

/// Functions of a rank that has initialized: `ask REQUEST` prints the answer, and so do
/// `spawn_by COUNT KEY HOSTS SCRIPT`, which names hosts by an info key, and `spawn COUNT HOSTS SCRIPT`, by `host`.
/// Without hosts there is no info.
pub const SPAWNER: &str = r#"
    ask() { echo "cmd=$1" >&$PMI_FD; read answer <&$PMI_FD; echo "$answer"; }
    spawn_by() {
        printf 'mcmd=spawn\nnprocs=%s\nexecname=sh\ntotspawns=1\nspawnssofar=1\narg1=-c\n' $1 >&$PMI_FD
        printf 'arg2=%s\nargcnt=2\npreput_num=1\npreput_key_0=k\npreput_val_0=v\n' "$4" >&$PMI_FD
        [ -z "$3" ] && echo info_num=0 >&$PMI_FD
        [ -n "$3" ] && printf 'info_num=1\ninfo_key_0=%s\ninfo_val_0=%s\n' "$2" "$3" >&$PMI_FD
        echo endcmd >&$PMI_FD
        read answer <&$PMI_FD; echo "$answer" | cut -d ' ' -f 1,2
    }
    spawn() { spawn_by $1 host "$2" "$3"; }
    ask 'init pmi_version=1 pmi_subversion=1' >/dev/null
"#;
