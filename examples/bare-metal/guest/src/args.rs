//! Boot arguments of the guest: words of `name=value` with blanks between.

use core::net::Ipv4Addr;

use crate::net::SOCKETS;

/// Role of the guest, and its peers.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) role: Role,
    /// The guest's own address.
    pub(crate) addr: Ipv4Addr,
    /// The address of the server.
    pub(crate) host: Ipv4Addr,
    pub(crate) port: u16,
    /// Protocol of a client.
    pub(crate) versions: RequestedVersions,
    /// The calls of a client are futures; in PMI-1 only.
    pub(crate) has_futures: bool,
    /// In PMI-2: the rank of a client.
    pub(crate) rank: u32,
    /// In PMI-2: the secret that a client proves to know; no proof if it is empty.
    pub(crate) secret: &'static str,
    /// Process ids of PMI-1 clients: the rank of each, or a number that only this client received. A guest
    /// has a rank for each. For a server, the number of rank 0; those of the others follow.
    pub(crate) ids: Ids,
    /// Connection of a client to its server.
    pub(crate) link: LinkKind,
    /// Number of ranks that a server waits for.
    pub(crate) size: usize,
    /// Time limit of the whole run.
    pub(crate) limit_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedVersions {
    Pmi1,
    Pmi2,
    /// The binary dialect.
    Binary,
}

/// Process ids, of as many ranks as there are sockets.
pub(crate) type Ids = heapless::Vec<u64, SOCKETS>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// TCP over the network card.
    Net,
    /// A virtio serial port.
    Serial,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
    /// Provokes a trap, so that its exit can be tested.
    Trap,
    /// Panics, so that its exit can be tested, too.
    Panic,
}

impl Args {
    /// Parses the words.
    ///
    /// # Errors
    ///
    /// The word that is not understood.
    pub(crate) fn new(line: &'static str) -> Result<Self, &'static str> {
        let mut args = Self {
            role: Role::Client,
            addr: Ipv4Addr::new(10, 0, 2, 15),
            host: Ipv4Addr::new(10, 0, 2, 2),
            port: 0,
            versions: RequestedVersions::Pmi1,
            has_futures: false,
            rank: 0,
            secret: "",
            ids: Ids::new(),
            link: LinkKind::Net,
            size: 1,
            limit_ms: 20_000,
        };
        for word in line.split_ascii_whitespace() {
            args.take(word).ok_or(word)?;
        }
        let is_node = matches!(args.role, Role::Client | Role::Server);
        if args.port == 0 && is_node && args.link == LinkKind::Net {
            return Err("port");
        }
        // Calls that wait would wait for a rank of the same guest.
        if args.ids.len() > 1 && !args.has_futures {
            return Err("id");
        }
        Ok(args)
    }

    /// The first process id; 0 if none was given.
    pub(crate) fn id(&self) -> u64 {
        self.ids.first().copied().unwrap_or(0)
    }

    fn take(&mut self, word: &'static str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        match name {
            "role" => {
                self.role = match value {
                    "client" => Role::Client,
                    "server" => Role::Server,
                    "trap" => Role::Trap,
                    "panic" => Role::Panic,
                    _ => return None,
                }
            }
            "addr" => self.addr = value.parse().ok()?,
            "host" => self.host = value.parse().ok()?,
            "port" => self.port = value.parse().ok()?,
            "pmi" => {
                self.versions = match value {
                    "1" => RequestedVersions::Pmi1,
                    "2" => RequestedVersions::Pmi2,
                    "binary" | "frames" => RequestedVersions::Binary,
                    _ => return None,
                }
            }
            "calls" => {
                self.has_futures = match value {
                    "plain" => false,
                    "futures" => true,
                    _ => return None,
                }
            }
            "rank" => self.rank = value.parse().ok()?,
            "secret" => self.secret = value,
            "id" => {
                self.ids.clear();
                for id in value.split(',') {
                    self.ids.push(id.parse().ok()?).ok()?;
                }
            }
            "link" => {
                self.link = match value {
                    "net" => LinkKind::Net,
                    "serial" => LinkKind::Serial,
                    _ => return None,
                }
            }
            "size" => self.size = value.parse().ok().filter(|size| (1..=4).contains(size))?,
            "limit-ms" => self.limit_ms = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }
}
