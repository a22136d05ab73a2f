//! The network card: virtio over MMIO, for smoltcp. Polled, and all its memory is here.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use virtio_drivers::device::net::VirtIONetRaw;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::{DeviceType, Transport};
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

use super::arch::VIRTIO_MMIO;

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
        let (base, step, count) = VIRTIO_MMIO;
        let mut card = (0..count).find_map(|at| {
            let header = NonNull::new((base + at * step) as *mut _)?;
            // SAFETY: the machine has a virtio device, or a place for one, at each of these.
            let transport = unsafe { MmioTransport::new(header, step) }.ok()?;
            let is_card = transport.device_type() == DeviceType::Network;
            is_card.then(|| Card::new(transport).ok()).flatten()
        })?;
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

/// Physical and virtual addresses are equal, and pages come from a static.
pub(crate) struct IdentityMapping;

#[repr(C, align(4096))]
struct Pool(UnsafeCell<[u8; POOL_PAGES * PAGE_SIZE]>);

// SAFETY: each page is handed out once.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool(UnsafeCell::new([0; POOL_PAGES * PAGE_SIZE]));
static USED_PAGES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: pages are of a static, zeroed, aligned, and never handed out twice.
unsafe impl Hal for IdentityMapping {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // Load and store instead of an addition: there is one processor, and no interrupt.
        let first = USED_PAGES.load(Ordering::Relaxed);
        if first + pages > POOL_PAGES {
            return (0, NonNull::dangling());
        }
        USED_PAGES.store(first + pages, Ordering::Relaxed);
        // SAFETY: within the pool, as was just seen.
        let at = unsafe { POOL.0.get().cast::<u8>().add(first * PAGE_SIZE) };
        (at as PhysAddr, NonNull::new(at).unwrap_or(NonNull::dangling()))
    }

    unsafe fn dma_dealloc(_: PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        0 // the card is never given up
    }

    unsafe fn mmio_phys_to_virt(at: PhysAddr, _: usize) -> NonNull<u8> {
        NonNull::new(at as *mut u8).unwrap_or(NonNull::dangling())
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.as_ptr().cast::<u8>() as PhysAddr
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}

const QUEUE: usize = 4;
const RECEIVING: usize = 2;
/// Two queues with two areas each.
const POOL_PAGES: usize = 4;
/// The driver refuses frames below 1526 bytes.
const FRAME_BYTES: usize = 1536;
