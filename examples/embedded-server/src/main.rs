//! A launcher around the server of `pmi-std`: `pmi-embedded-server N PROGRAM ARGUMENTS…`.

use pmi_std::server::{JobDescription, PmiServer, ServerEvent, SpawnProgram};
use std::error::Error;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1).map(OsString::into_vec);
    let ranks = words.next().ok_or("the number of ranks is missing")?;
    let processes = String::from_utf8_lossy(&ranks).parse()?;
    let executable = words.next().ok_or("the program is missing")?;
    let program = SpawnProgram { executable, arguments: words.collect(), processes, info: vec![] };

    let (mut server, mut children, mut code) = (PmiServer::new()?, Vec::new(), 0);
    let first = JobDescription::new(b"kvs_0");
    start(&mut server, &first, &[program], &mut children)?;
    server.run(|server, event| match event {
        ServerEvent::SpawnRequested(request) => {
            let name = format!("kvs_{}", children.len());
            let pairs = request.preputs.iter().map(|(key, value)| (&key[..], &value[..]));
            let preputs: Vec<_> = pairs.collect();
            let spawner = Some(request.job);
            let job = JobDescription {
                spawner,
                preputs: &preputs,
                ..JobDescription::new(name.as_bytes())
            };
            let made = start(server, &job, &request.programs, &mut children).map_err(|_| -1);
            // The rank that has requested it may be gone.
            let _ = server.answer_spawn(request.id, made);
        }
        ServerEvent::Aborted { code: requested, .. } => {
            code = requested.unwrap_or(1);
            children.iter_mut().for_each(|child| drop(child.kill()));
        }
        _ => {}
    })?;
    for mut child in children {
        let status = child.wait()?;
        code = if code == 0 { status.code().unwrap_or(1) } else { code };
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Adds a job and starts its processes, each with its connection as standard input.
fn start(
    server: &mut PmiServer,
    job: &JobDescription<'_>,
    programs: &[SpawnProgram],
    children: &mut Vec<Child>,
) -> Result<pmi_std::server::JobId, Box<dyn Error>> {
    let each = programs.iter().flat_map(|one| (0..one.processes).map(move |_| one));
    let size = each.clone().count();
    let pairs = (0..size).map(|_| UnixStream::pair()).collect::<Result<Vec<_>, _>>()?;
    let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let id = server.add_job(job, ours)?;
    for (rank, (program, stream)) in each.zip(theirs).enumerate() {
        let name = |bytes: &[u8]| std::ffi::OsStr::from_bytes(bytes).to_owned();
        let mut command = Command::new(name(&program.executable));
        command.args(program.arguments.iter().map(|argument| name(argument)));
        command
            .env("PMI_FD", "0")
            .env("PMI_RANK", rank.to_string())
            .env("PMI_SIZE", size.to_string());
        command.env("PMI_SPAWNED", if job.spawner.is_some() { "1" } else { "0" });
        children.push(command.stdin(OwnedFd::from(stream)).spawn()?);
    }
    Ok(id)
}
