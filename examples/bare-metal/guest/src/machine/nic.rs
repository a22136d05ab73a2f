//! The network card: virtio over MMIO, for smoltcp. Polled, and all its memory is here.

use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use virtio_drivers::device::net::VirtIONetRaw;
use virtio_drivers::transport::DeviceType;
use virtio_drivers::transport::mmio::MmioTransport;

use super::virtio::{self, IdentityMapping};

type Card = VirtIONetRaw<IdentityMapping, MmioTransport<'static>, QUEUE>;

/// The card with its frames.
pub(crate) struct Nic {
    card: Card,
    frames: &'static mut Frames,
    tokens: [u16; RECEIVING],
}

/// Apart from the card, since what is built and then moved passes through the stack.
pub(crate) struct Frames {
    receiving: [[u8; FRAME_BYTES]; RECEIVING],
    inbox: [u8; FRAME_BYTES],
    outbox: [u8; FRAME_BYTES],
}

impl Frames {
    pub(crate) const fn new() -> Self {
        let frame = [0; FRAME_BYTES];
        Self { receiving: [frame; RECEIVING], inbox: frame, outbox: frame }
    }
}

impl Nic {
    /// Finds the card and gives it its frames; `None` if there is no card that works.
    pub(crate) fn find(frames: &'static mut Frames) -> Option<Self> {
        let mut card = virtio::devices(DeviceType::Network).find_map(|of| Card::new(of).ok())?;
        let mut tokens = [0; RECEIVING];
        for (frame, token) in frames.receiving.iter_mut().zip(&mut tokens) {
            // SAFETY: the frame is a static's, and given back by `receive_complete` only.
            *token = unsafe { card.receive_begin(frame) }.ok()?;
        }
        Some(Self { card, frames, tokens })
    }

    pub(crate) fn mac(&self) -> [u8; 6] {
        self.card.mac_address()
    }
}

/// A received frame.
pub(crate) struct Incoming<'a>(&'a [u8]);

/// Transmission of a frame.
pub(crate) struct Outgoing<'a>(&'a mut Card, &'a mut [u8; FRAME_BYTES]);

impl phy::RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl phy::TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let Self(card, frame) = self;
        let frame = frame.get_mut(..len).unwrap_or(&mut []);
        let result = write(frame);
        // TCP sends a lost frame again.
        let _lost = card.send(frame);
        result
    }
}

impl phy::Device for Nic {
    type RxToken<'a> = Incoming<'a>;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        let token = self.card.poll_receive()?;
        let at = self.tokens.iter().position(|own| *own == token)?;
        let frame = self.frames.receiving.get_mut(at)?;
        // SAFETY: this frame was given for this token.
        let (head, len) = unsafe { self.card.receive_complete(token, frame) }.ok()?;
        let inbox = self.frames.inbox.get_mut(..len)?;
        inbox.copy_from_slice(frame.get(head..head + len)?);
        // SAFETY: as in `find`; its bytes were copied, so the card may reuse it at once.
        *self.tokens.get_mut(at)? = unsafe { self.card.receive_begin(frame) }.ok()?;
        Some((Incoming(inbox), Outgoing(&mut self.card, &mut self.frames.outbox)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        Some(Outgoing(&mut self.card, &mut self.frames.outbox))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = 1514;
        capabilities.max_burst_size = Some(1);
        capabilities.medium = Medium::Ethernet;
        capabilities
    }
}

const QUEUE: usize = 4;
const RECEIVING: usize = 2;
/// The driver refuses frames below 1526 bytes.
const FRAME_BYTES: usize = 1536;
