//! Virtio devices over MMIO, and the memory that they share with this processor.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::{DeviceType, Transport};
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

use super::arch::VIRTIO_MMIO;

/// Devices of this type.
pub(crate) fn devices(wanted: DeviceType) -> impl Iterator<Item = MmioTransport<'static>> {
    let (base, step, count) = VIRTIO_MMIO;
    (0..count).filter_map(move |at| {
        let header = NonNull::new((base + at * step) as *mut _)?;
        // SAFETY: the machine has a virtio device, or a place for one, at each of these.
        let transport = unsafe { MmioTransport::new(header, step) }.ok()?;
        (transport.device_type() == wanted).then_some(transport)
    })
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
        0 // a device is never given up
    }

    unsafe fn mmio_phys_to_virt(at: PhysAddr, _: usize) -> NonNull<u8> {
        NonNull::new(at as *mut u8).unwrap_or(NonNull::dangling())
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.as_ptr().cast::<u8>() as PhysAddr
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}

/// Four queues with two areas each: those of a card with its two, or of a serial port with its four.
const POOL_PAGES: usize = 8;
