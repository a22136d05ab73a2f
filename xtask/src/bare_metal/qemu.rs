//! Programs that run beside us: their lines, their end, and no longer than they may.

use super::Arch;
use crate::process;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) type Line = String;

/// Connection of a guest to others.
pub(crate) enum GuestLink {
    /// To the host's loopback, which it sees at 10.0.2.2.
    User,
    /// To the other guests on this port of a multicast group.
    Shared(u32),
    /// A serial port, whose bytes go to this port of the host's loopback.
    Serial(u16),
}

impl GuestLink {
    /// A network for one scene: two runs on one machine must not share it.
    pub(crate) fn shared() -> Self {
        Self::Shared(20_000 + std::process::id() % 20_000)
    }

    /// Options of the device of guest `number`, and of its other end.
    fn devices(&self, number: usize) -> Vec<String> {
        let card = |net: String| {
            let card = format!("virtio-net-device,netdev=n0,mac=52:54:00:00:00:{number:02x}");
            ["-netdev", &net, "-device", &card].map(String::from).to_vec()
        };
        match self {
            Self::User => card("user,id=n0".into()),
            Self::Shared(port) => {
                card(format!("socket,id=n0,mcast=230.0.0.1:{port},localaddr=127.0.0.1"))
            }
            Self::Serial(port) => {
                let end = format!("socket,id=l0,host=127.0.0.1,port={port}");
                let port = "virtserialport,chardev=l0,name=pmi";
                ["-chardev", &end, "-device", "virtio-serial-device", "-device", port]
                    .map(String::from)
                    .to_vec()
            }
        }
    }
}

/// A program, killed when it is dropped.
pub(crate) struct Running {
    name: String,
    child: Child,
    lines: Receiver<Line>,
}

impl Running {
    /// Starts a guest.
    pub(crate) fn guest(
        arch: &Arch,
        kernel: &Path,
        number: usize,
        arguments: &str,
        link: &GuestLink,
    ) -> Result<Self, String> {
        let mut qemu = process::command(format!("qemu-system-{}", arch.name));
        qemu.args(arch.machine.split(' ').chain(COMMON.split(' ')));
        qemu.arg("-kernel").arg(kernel).args(["-append", arguments]);
        qemu.args(link.devices(number));
        Self::start(format!("guest {number}"), &mut qemu)
    }

    /// Starts a microcontroller with its number; its serial line is connected to `tcp:ADDR:PORT`
    /// or a device, if to anything.
    pub(crate) fn board(
        machine: &str,
        kernel: &Path,
        line: Option<(&str, u64)>,
    ) -> Result<Self, String> {
        Self::start("board".into(), &mut board(machine, kernel, line))
    }

    /// Starts a micro:bit with its number; its serial line is connected to `line`.
    ///
    /// QEMU asks a serial port whether it receives when its main loop turns, and the port of this machine
    /// does not wake it when the program begins to: the line would be silent until something else happens.
    /// Bytes for the debugger's console do, which the program does not read.
    pub(crate) fn microbit(kernel: &Path, line: (&str, u64)) -> Result<Self, String> {
        let mut qemu = board("microbit", kernel, Some(line));
        let mut running = Self::start("board".into(), qemu.stdin(Stdio::piped()))?;
        if let Some(mut console) = running.child.stdin.take() {
            thread::spawn(move || {
                while console.write_all(b"\n").is_ok() {
                    thread::sleep(Duration::from_millis(50));
                }
            });
        }
        Ok(running)
    }

    /// Starts the guest in C with its number; its serial line is connected to `line`, as that of a board.
    pub(crate) fn guest_in_c(kernel: &Path, line: &str, id: u64) -> Result<Self, String> {
        let mut qemu = process::command("qemu-system-riscv64");
        qemu.args("-M virt -bios none -m 4M -accel tcg -smp 1".split(' '));
        qemu.args("-nodefaults -no-user-config -display none -no-reboot".split(' '));
        qemu.args(semihosting(id)).args(["-serial", line]);
        Self::start("guest in C".into(), qemu.arg("-kernel").arg(kernel))
    }

    /// Starts the process manager.
    pub(crate) fn manager(program: &Path, arguments: &[&str]) -> Result<Self, String> {
        Self::start("manager".into(), process::command(program).args(arguments))
    }

    /// Starts `pmi-host`, which prints its address for ranks on its other stream.
    pub(crate) fn host(program: &Path, arguments: &[&OsStr]) -> Result<Self, String> {
        let mut command = process::command(program);
        Self::start_with("host".into(), command.args(arguments), Stdio::piped())
    }

    /// Starts a program, which is called `name` in lines and reports.
    pub(crate) fn start(name: String, command: &mut Command) -> Result<Self, String> {
        Self::start_with(name, command, Stdio::inherit())
    }

    fn start_with(name: String, command: &mut Command, errors: Stdio) -> Result<Self, String> {
        command.stdout(Stdio::piped()).stderr(errors);
        let mut child = command
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
        let (sender, lines) = channel();
        if let Some(pipe) = child.stdout.take() {
            pass_on(pipe, name.clone(), sender.clone());
        }
        if let Some(pipe) = child.stderr.take() {
            pass_on(pipe, name.clone(), sender);
        }
        Ok(Self { name, child, lines })
    }

    /// The port that the manager prints.
    pub(crate) fn port(&mut self, until: Instant) -> Result<u16, String> {
        self.line(until, "port", |line| line.rsplit(' ').next()?.parse().ok())
    }

    /// The port in the address that `pmi-host` prints.
    pub(crate) fn dial_port(&mut self, until: Instant) -> Result<u16, String> {
        self.line(until, "port", |line| {
            let address = line.split_once("PMI_PORT=")?.1.split([';', ' ']).next()?;
            address.rsplit(':').next()?.parse().ok()
        })
    }

    /// The device that a bridge prints.
    pub(crate) fn device(&mut self, until: Instant) -> Result<String, String> {
        let is_device = |word: &&str| word.starts_with("/dev/");
        self.line(until, "device", |line| line.split(' ').find(is_device).map(str::to_owned))
    }

    /// Reads lines up to the first that `read` takes.
    fn line<T>(
        &mut self,
        until: Instant,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, String> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.map_err(|_| format!("{}: it prints no {what}", self.name))?;
            if let Some(found) = read(&line) {
                return Ok(found);
            }
        }
    }

    /// Waits for the end and gives all lines.
    ///
    /// # Errors
    ///
    /// Another exit status, or no end in time.
    pub(crate) fn ends_with(&mut self, expected: i32, until: Instant) -> Result<Vec<Line>, String> {
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() >= until => {
                    return Err(format!("{} does not end", self.name));
                }
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(error.to_string()),
            }
        };
        if status.code() != Some(expected) {
            return Err(format!("{}: {status}, expected {expected}", self.name));
        }
        Ok(self.lines.iter().collect())
    }
}

/// QEMU as a microcontroller; see [`Running::board`].
fn board(machine: &str, kernel: &Path, line: Option<(&str, u64)>) -> Command {
    let mut qemu = process::command("qemu-system-arm");
    qemu.args(["-M", machine, "-nodefaults", "-display", "none"]);
    qemu.args(semihosting(line.map_or(0, |(_, id)| id)));
    if let Some((to, _)) = line {
        qemu.args(["-serial", to]);
    }
    qemu.arg("-kernel").arg(kernel);
    qemu
}

/// Options of a debugger that prints on the standard output, and gives the program its number.
fn semihosting(id: u64) -> [String; 4] {
    let config = format!("enable=on,target=native,chardev=c0,arg=rank,arg={id}");
    ["-chardev".into(), "stdio,id=c0".into(), "-semihosting-config".into(), config]
}

/// Prints lines as they come, and keeps them. Whole lines: the letters of several guests would mix on one
/// terminal.
fn pass_on(pipe: impl Read + Send + 'static, name: String, lines: Sender<Line>) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            println!("   {name}: {line}");
            if lines.send(line).is_err() {
                break;
            }
        }
    });
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The machine of the board with a Cortex-M4.
pub(crate) const MPS2: &str = "mps2-an386";

const COMMON: &str = "-accel tcg -smp 1 -nodefaults -no-user-config -display none -no-reboot \
                      -serial stdio -global virtio-mmio.force-legacy=false";
