//! A launcher around the server of `pmi-std`: `pmi-embedded-server N PROGRAM ARGUMENTS…`.

use pmi_std::server::{JobDescription, JobId, PmiServer, ServerEvent, SpawnProgram};
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1).map(OsString::into_vec);
    let processes = String::from_utf8(words.next().ok_or("no number of ranks")?)?.parse()?;
    let executable = words.next().ok_or("no program")?;
    let program = SpawnProgram { executable, arguments: words.collect(), processes, info: vec![] };
    let (mut server, mut children, mut code) = (PmiServer::new()?, Vec::new(), 0);
    start(&mut server, &JobDescription::new(b"kvs_0"), &[program], &mut children)?;
    server.run(|server, event| match event {
        ServerEvent::SpawnRequested(request) => {
            let name = format!("kvs_{}", children.len());
            let preputs: Vec<_> = request.preputs.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            let mut job = JobDescription::new(name.as_bytes());
            (job.spawner, job.preputs) = (Some(request.job), &preputs);
            let made = start(server, &job, &request.programs, &mut children).map_err(|_| -1);
            let _ = server.answer_spawn(request.id, made); // Its rank may be gone.
        }
        ServerEvent::Aborted { code: requested, .. } => {
            code = requested.unwrap_or(1);
            children.iter_mut().for_each(|child| drop(child.kill()));
        }
        _ => {}
    })?;
    for mut child in children {
        let status = child.wait()?.code().unwrap_or(1);
        code = if code == 0 { status } else { code };
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Adds a job and starts its processes, each with its connection as standard input.
fn start(
    server: &mut PmiServer,
    job: &JobDescription<'_>,
    programs: &[SpawnProgram],
    children: &mut Vec<Child>,
) -> Result<JobId, Box<dyn Error>> {
    let each = programs.iter().flat_map(|one| (0..one.processes).map(move |_| one));
    let pairs: Result<Vec<_>, _> = each.clone().map(|_| UnixStream::pair()).collect();
    let (ours, theirs): (Vec<_>, Vec<_>) = pairs?.into_iter().unzip();
    let (size, spawned) = (ours.len().to_string(), i32::from(job.spawner.is_some()).to_string());
    let id = server.add_job(job, ours)?;
    for (rank, (program, stream)) in each.zip(theirs).enumerate() {
        let mut command = Command::new(OsStr::from_bytes(&program.executable));
        command.args(program.arguments.iter().map(|word| OsStr::from_bytes(word)));
        command.env("PMI_FD", "0").env("PMI_RANK", rank.to_string()).env("PMI_SIZE", &size);
        command.env("PMI_SPAWNED", &spawned).env("PMI_SNAPSHOT", "1").stdin(OwnedFd::from(stream));
        children.push(command.spawn()?);
    }
    Ok(id)
}
