//! The same with futures, on the smallest possible executor: only `block_on` blocks.

use crate::{ALONE, card_of, key_of, print};
use async_io::Async;
use embedded_io_adapters::futures_03::FromFutures;
use embedded_io_async::{Read, Write};
use futures_lite::future::block_on;
use pmi_core::command::Version;
use pmi_link::task::{AsyncPmi, Opening};
use pmi_std::Stream;
use pmi_std::env::{Environment, Transport};
use std::error::Error;

/// Participates in the job once.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let environment = Environment::of_this_process()?;
    if environment.transport == Transport::Singleton {
        return Err(ALONE.into());
    }
    let future = async {
        match pmi_std::reach(&environment)? {
            Stream::Unix(stream) => {
                exchange(FromFutures::new(Async::new(stream)?), &environment).await
            }
            Stream::Tcp(stream) => {
                exchange(FromFutures::new(Async::new(stream)?), &environment).await
            }
            #[allow(unreachable_patterns, reason = "there are more kinds where pmi-std has TLS")]
            _ => Err("this example has no TLS".into()),
        }
    };
    block_on(future)
}

async fn exchange<IO>(io: IO, environment: &Environment) -> Result<(), Box<dyn Error>>
where
    IO: Read + Write,
    IO::Error: Send + Sync + 'static,
{
    let mut pmi = AsyncPmi::new(io);
    let (mut rank, mut size) = (environment.rank, environment.size);
    // Only a process that connects by TCP has to identify itself.
    if let Transport::Tcp { id, .. } = &environment.transport {
        let identity = pmi.greet(*id).await?;
        (rank, size) = (identity.rank, identity.size);
    }
    pmi.open(&Opening::new(Version::V1_1), &mut []).await?;
    pmi.kvsname().await?;
    pmi.put(key_of(rank).as_bytes(), card_of(rank).as_bytes()).await?;
    pmi.fence().await?;
    for peer in 0..size {
        let mut room = [0; 128];
        let len = pmi.get(key_of(peer).as_bytes(), &mut room).await?.ok_or("a card is missing")?;
        print(rank, size, peer, &room[..len]);
    }
    Ok(pmi.finalize().await?)
}
