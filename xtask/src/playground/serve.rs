//! A server of files on loopback, for one person and a page: GET, and nothing else.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Component, Path};
use std::thread;
use std::time::Duration;

/// Listens on loopback; any free port if it is 0.
pub(crate) fn listen(port: u16) -> Result<(TcpListener, String), String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(|error| format!("port {port}: {error}; choose another with --port N"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Ok((listener, format!("http://{address}/")))
}

/// Serves `directory` until the process ends.
pub(crate) fn serve(listener: &TcpListener, directory: &Path) {
    for stream in listener.incoming().filter_map(Result::ok) {
        let directory = directory.to_path_buf();
        // A browser that keeps a connection open must not hold up the next.
        thread::spawn(move || answer(&stream, &directory));
    }
}

/// A peer that disconnects in the middle is no error.
fn answer(stream: &TcpStream, directory: &Path) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut request)?;
    let (status, kind, body) = response(&request, directory);
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Content-Security-Policy: {POLICY}\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}

/// The status, the kind of the body, and the body.
fn response(request: &str, directory: &Path) -> (&'static str, &'static str, Vec<u8>) {
    let missing =
        ("404 Not Found", "text/plain; charset=utf-8", b"there is no such file\n".to_vec());
    let mut words = request.split(' ');
    let (Some("GET"), Some(target)) = (words.next(), words.next()) else {
        return ("405 Method Not Allowed", "text/plain; charset=utf-8", b"GET only\n".to_vec());
    };
    let path = target.split(['?', '#']).next().unwrap_or_default().trim_start_matches('/');
    let path = Path::new(if path.is_empty() { "index.html" } else { path });
    // Nothing above the directory, and nothing that names another root.
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return missing;
    }
    match fs::read(directory.join(path)) {
        Ok(body) => ("200 OK", kind(path), body),
        Err(_) => missing,
    }
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// The page loads nothing from elsewhere; it may watch a job that serves on this machine or another.
const POLICY: &str = "default-src 'self'; img-src 'self' data: blob:; \
                      script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; \
                      connect-src 'self' ws: wss:";

const PATIENCE: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: u64 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    fn ask(request: &str) -> (&'static str, &'static str, Vec<u8>) {
        response(request, &process::root().join("wasm/www"))
    }

    #[test]
    fn files_of_the_folder_are_served_with_their_kind() {
        let (status, kind, body) = ask("GET / HTTP/1.1\r\n");
        assert_eq!((status, kind), ("200 OK", "text/html; charset=utf-8"));
        assert!(body.starts_with(b"<!doctype html>"));
        assert_eq!(ask("GET /style.css?1 HTTP/1.1\r\n").0, "200 OK");
    }

    #[test]
    fn nothing_else_is_served() {
        for target in
            ["/no-such-file", "/../Cargo.toml", "/..%2fCargo.toml", "//etc/passwd", "/./../x"]
        {
            assert_eq!(ask(&format!("GET {target} HTTP/1.1\r\n")).0, "404 Not Found", "{target}");
        }
        for request in ["", "POST / HTTP/1.1\r\n", "GET"] {
            assert_eq!(ask(request).0, "405 Method Not Allowed", "{request}");
        }
    }
}
