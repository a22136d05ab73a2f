//! Command of a host without this program: a shell stores it in a temporary file, and runs it from there.
//!
//! Standard input has the key of the run in the first line, which a shell reads byte by byte, and the program
//! up to the end. The program is checked before it gets the key. The shell removes it after its end.

use std::fs;

/// Words that run `node`, of which the first is the path of this program, from a copy.
pub(super) fn words(node: &[String]) -> Vec<String> {
    let machine = rustix::system::uname().machine().to_string_lossy().into_owned();
    let shell = ["sh", "-c", SCRIPT, "pmi-host", &machine].map(str::to_owned);
    shell.into_iter().chain(node.iter().skip(1).cloned()).collect()
}

/// The same for a node server whose connections are carried over standard input, from which no more than the
/// program is read.
///
/// # Errors
///
/// A message for the user: the size of the program is unknown.
pub(super) fn relayed_words(node: &[String]) -> Result<Vec<String>, String> {
    let size = fs::metadata("/proc/self/exe")
        .map_err(|error| format!("the size of this pmi-host cannot be read ({error})"))?;
    let mut words = words(node);
    if let Some(script) = words.get_mut(SCRIPT_WORD) {
        // The number cannot be an argument: all of these are for the program.
        let stored = format!("head -c {} >", size.len());
        *script = script.replacen("cat >", &stored, 1).replacen(KEY_ON_INPUT, KEY_BESIDE_INPUT, 1);
    }
    Ok(words)
}

/// Place of the script among the words.
const SCRIPT_WORD: usize = 2;

/// Execution of the program with the key on its standard input, and with that of the shell there, while the
/// key is at another descriptor.
const KEY_ON_INPUT: &str = r#"echo "$k" | "$p/pmi-host" "$@";"#;
const KEY_BESIDE_INPUT: &str =
    r#"exec 4<&0; echo "$k" | "$p/pmi-host" "$@" --key /dev/fd/3 3<&0 0<&4 4<&-;"#;

/// Script for any POSIX shell, of characters that shells of another family leave as they are between single
/// quotation marks. Its arguments are the architecture, and those of the program.
///
/// The key is passed on by `echo`, a part of every shell: the words of another program would show it to all
/// users.
///
/// A directory in which files cannot be executed (status 126) is left for the next one. Signals are for the
/// node server; the shell has to outlive it, also where nobody reads what it writes, and begins nothing after
/// one.
const SCRIPT: &str = concat!(
    r#"a=$(uname -m); [ "$a" = "$1" ] || { "#,
    r#"echo "this host has processors of architecture $a, and the launcher is for $1" >&2; exit 1; }; "#,
    r#"shift; read -r k || { echo "standard input has no key of a run; the starter has to pass on its own "#,
    r#"standard input, as kubectl exec -i does" >&2; exit 1; }; "#,
    r#"umask 077; q=; trap "q=1" HUP INT TERM PIPE; p=; s=1; e=; "#,
    r#"for t in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm "${HOME:-/tmp}"; do "#,
    r#"d=$(trap "" HUP INT TERM; mktemp -d "$t/pmi-host.XXXXXX" 2>/dev/null) || continue; "#,
    r#"if [ -z "$p" ]; then cat >"$d/pmi-host"; else cp "$p/pmi-host" "$d" && rm -rf "$p"; fi || "#,
    r#"{ rm -rf "$d" "$p"; echo "pmi-host cannot be stored in $t" >&2; exit 1; }; "#,
    r#"p=$d; chmod 700 "$p/pmi-host"; e=$("$p/pmi-host" --version 2>&1 >/dev/null </dev/null); s=$?; "#,
    r#"[ -z "$q" ] && [ $s = 126 ] || break; done; "#,
    r#"if [ -n "$q" ]; then s=1; elif [ -z "$p" ]; then "#,
    r#"echo "no directory for temporary files takes pmi-host" >&2; "#,
    r#"elif [ $s = 0 ]; then echo "$k" | "$p/pmi-host" "$@"; s=$?; "#,
    r#"else echo "pmi-host does not run on this host: $e" >&2; fi; "#,
    r#"if [ -n "$p" ]; then rm -rf "$p"; fi; exit $s"#,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_has_no_character_that_a_shell_changes_between_single_quotation_marks() {
        assert!(!SCRIPT.contains(['\'', '\n', '!']));
        // Some shells execute a program for that, whose words have the key then.
        assert!(!SCRIPT.contains("printf"));
        let node = ["/path/of/pmi-host", "node", "--to"].map(str::to_owned);
        let words = words(&node);
        assert_eq!(words[5..], ["node", "--to"]);
        let relayed = relayed_words(&node).unwrap();
        assert_eq!(relayed[3..], words[3..]);
        let script = &relayed[SCRIPT_WORD];
        let bytes = fs::metadata("/proc/self/exe").unwrap().len();
        assert!(
            script.contains(&format!("then head -c {bytes} >\"$d/pmi-host\"; else")),
            "{script}"
        );
        assert!(script.contains(KEY_BESIDE_INPUT) && !script.contains(KEY_ON_INPUT), "{script}");
    }
}
