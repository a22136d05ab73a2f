//! PMIx: any bytes are read without harm in every format, and every read message can be written again.

use pmi_core::wire::Framed;
use pmi_core::wire::pmix::greeting::Greeting;
use pmi_core::wire::pmix::header::Header;
use pmi_core::wire::pmix::{App, Family, Format, Kvals, Packer, Request, Type, Unpacker, regex};

const FORMATS: [Format; 4] = [
    Format::PLAIN,
    Format { family: Family::Fixed, is_described: false },
    Format { family: Family::Flex, is_described: true },
    Format { family: Family::Fixed, is_described: true },
];

/// Decodes bytes; the first one selects a format and a kind of data.
pub fn decode_pmix(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let format = FORMATS[usize::from(choice % 4)];
    match choice / 4 % 5 {
        0 => greeting(bytes),
        1 => request(bytes, format),
        2 => kvals(bytes, format),
        3 => value(bytes, format),
        _ => {
            let mut count = 0;
            let _ = regex::names(bytes, |_, _| count += 1);
        }
    }
}

fn greeting(bytes: &[u8]) {
    let Ok(Framed::Whole(len)) = Greeting::frame(bytes) else { return };
    assert!(len <= bytes.len());
    let Ok(read) = Greeting::read(&bytes[..len]) else { return };
    let _ = (read.layout(), read.release());
    let again = written(|out| read.write(out).map_err(|full| full.needed));
    let again = Greeting::read(&again).expect("we read what we write");
    assert_eq!(again, read);
}

fn request(bytes: &[u8], format: Format) {
    if let Some(header) = Header::read(bytes) {
        assert_eq!(Header::read(&header.bytes()), Some(header));
    }
    let Ok(request) = Request::read(Unpacker::new(bytes, format)) else { return };
    // Parts that are read only on demand end, and have no more elements than bytes.
    let count = match request {
        Request::Commit(scopes) => {
            let buffers = scopes.map_while(Result::ok);
            buffers.map(|(_, bytes)| 1 + Kvals::new(bytes, format).count()).sum()
        }
        Request::DeregisterEvents(codes) => codes.count(),
        Request::Lookup(names) | Request::Unpublish(names) => names.keys().count(),
        Request::Fence(fence) | Request::Connect(fence) | Request::Disconnect(fence) => {
            fence.procs.procs().count() + fence.infos.infos().count()
        }
        Request::Spawn { infos, apps } => {
            let apps = apps.each(Type::APP, App::read);
            let parts = apps.map(|app| {
                app.words.iter().count() + app.variables.iter().count() + app.infos.infos().count()
            });
            parts.sum::<usize>() + infos.infos().count()
        }
        _ => 0,
    };
    assert!(count <= bytes.len());
}

fn kvals(bytes: &[u8], format: Format) {
    let mut kvals = Kvals::new(bytes, format);
    let known: Vec<_> = kvals.by_ref().map_while(Result::ok).collect();
    assert!(known.len() <= bytes.len() && kvals.rest().len() <= bytes.len());
    for to in FORMATS {
        let copied = packed(to, |packer| {
            known.iter().for_each(|kval| kval.write(packer).expect("it was read"));
        });
        let again: Vec<_> =
            Kvals::new(&copied, to).map(|kval| kval.expect("we wrote it")).collect();
        assert_eq!(again.len(), known.len());
        for (again, kval) in again.iter().zip(&known) {
            assert_eq!((again.key, again.value.of), (kval.key, kval.value.of));
            assert_eq!(again.value.number(), kval.value.number());
            assert_eq!(again.value.text(), kval.value.text());
        }
    }
}

fn value(bytes: &[u8], format: Format) {
    let Ok(value) = Unpacker::new(bytes, format).value() else { return };
    let _ = (value.number(), value.is_true(), value.proc(), value.variable(), value.blob());
    if let Some(list) = value.array() {
        assert!(list.infos().count() + list.procs().count() <= bytes.len());
    }
    for to in FORMATS {
        let copied = packed(to, |packer| value.write(packer).expect("it was read"));
        let mut again = Unpacker::new(&copied, to);
        assert_eq!(again.skip(value.of).map(<[u8]>::len), Ok(copied.len()));
    }
}

fn packed(format: Format, write: impl Fn(&mut Packer<'_>)) -> Vec<u8> {
    written(|out| {
        let mut to = Packer::new(out, format);
        write(&mut to);
        to.finish().map_err(|full| full.needed)
    })
}

/// Writes into exactly the room that `write` requires.
fn written(write: impl Fn(&mut [u8]) -> Result<usize, usize>) -> Vec<u8> {
    let Err(needed) = write(&mut []) else { return Vec::new() };
    let mut out = vec![0; needed];
    assert_eq!(write(&mut out), Ok(needed));
    out
}
