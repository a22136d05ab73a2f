//! A virtio serial port: virtio over MMIO. Polled, and all its memory is here.
//!
//! A device with several ports has a control queue, on which both sides name and open ports. This driver
//! opens the first port that is no console. Spec: Virtual I/O Device (VIRTIO) 1.2, section 5.3.

use virtio_drivers::PAGE_SIZE;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

use super::virtio::{self, IdentityMapping};

type Queue = VirtQueue<IdentityMapping, QUEUE>;

/// The port, and the device that it belongs to.
pub(crate) struct SerialPort {
    transport: MmioTransport<'static>,
    /// Messages about ports: received and sent.
    control: [Queue; 2],
    /// Bytes of the port: received and sent.
    bytes: [Queue; 2],
    memory: &'static mut PortMemory,
    /// Tokens of the messages that the device may fill.
    control_tokens: [u16; MESSAGES],
    state: PortState,
    receiving: Receiving,
    /// Token and length of the bytes that the device has not taken yet.
    sending: Option<(u16, usize)>,
}

/// Apart from the port, since what is built and then moved passes through the stack.
pub(crate) struct PortMemory {
    messages: [[u8; MESSAGE_BYTES]; MESSAGES],
    inbox: [u8; INBOX_BYTES],
    outbox: [u8; OUTBOX_BYTES],
}

/// Whether bytes can go over a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortState {
    /// The other end is not connected yet.
    Closed,
    Open,
    /// The other end has disconnected.
    Ended,
}

/// Use of the inbox.
#[derive(Clone, Copy)]
enum Receiving {
    /// The device may fill it; its token.
    Lent(u16),
    /// It holds bytes from `at` to `end`.
    Filled { at: usize, end: usize },
}

impl PortMemory {
    pub(crate) const fn new() -> Self {
        Self {
            messages: [[0; MESSAGE_BYTES]; MESSAGES],
            inbox: [0; INBOX_BYTES],
            outbox: [0; OUTBOX_BYTES],
        }
    }
}

impl SerialPort {
    /// Finds the device and announces this driver to it; `None` if there is no such device, or it has no port
    /// besides consoles.
    pub(crate) fn find(memory: &'static mut PortMemory) -> Option<Self> {
        let mut transport = virtio::devices(DeviceType::Console).next()?;
        let mut status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
        transport.set_status(DeviceStatus::empty());
        transport.set_status(status);
        let features = transport.read_device_features() & (MULTIPORT | VERSION_1);
        if features & MULTIPORT == 0 {
            return None;
        }
        transport.write_driver_features(features);
        status |= DeviceStatus::FEATURES_OK;
        transport.set_status(status);
        if !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
            return None;
        }
        transport.set_guest_page_size(u32::try_from(PAGE_SIZE).ok()?);
        let mut queue = |number| Queue::new(&mut transport, number, false, false).ok();
        let control = [queue(CONTROL.0)?, queue(CONTROL.1)?];
        let bytes = [queue(BYTES.0)?, queue(BYTES.1)?];
        transport.set_status(status | DeviceStatus::DRIVER_OK);
        let mut port = Self {
            transport,
            control,
            bytes,
            memory,
            control_tokens: [0; MESSAGES],
            state: PortState::Closed,
            receiving: Receiving::Filled { at: 0, end: 0 },
            sending: None,
        };
        for at in 0..MESSAGES {
            port.lend_message(at)?;
        }
        port.lend_inbox()?;
        port.tell(PORT, DEVICE_READY)?;
        Some(port)
    }

    /// Handles messages about the port.
    pub(crate) fn poll(&mut self) -> PortState {
        while let Some(at) = self.received_message() {
            // The message is handled before the device may overwrite it.
            let Some([a, b, c, d, e, f, g, h, ..]) = self.memory.messages.get(at).copied() else {
                break;
            };
            let port = u32::from_le_bytes([a, b, c, d]);
            let (event, value) = (u16::from_le_bytes([e, f]), u16::from_le_bytes([g, h]));
            let done = self.lend_message(at);
            let answer = match event {
                _ if port != PORT => Some(()),
                PORT_ADD => self.tell(PORT, PORT_READY).and_then(|()| self.tell(PORT, PORT_OPEN)),
                PORT_OPEN if value == 1 => {
                    self.state = PortState::Open;
                    // A device ignores memory that was lent before both ends were open.
                    self.transport.notify(BYTES.0);
                    Some(())
                }
                PORT_OPEN | PORT_REMOVE => {
                    self.state = PortState::Ended;
                    Some(())
                }
                _ => Some(()),
            };
            if done.and(answer).is_none() {
                self.state = PortState::Ended;
            }
        }
        self.state
    }

    /// Reads bytes that have arrived; 0 if there are none.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        if let Receiving::Lent(token) = self.receiving
            && self.bytes[0].peek_used() == Some(token)
        {
            // SAFETY: the inbox was lent for this token.
            let len =
                unsafe { self.bytes[0].pop_used(token, &[], &mut [&mut self.memory.inbox[..]]) };
            let end = len.map_or(0, |len| len as usize).min(INBOX_BYTES);
            self.receiving = Receiving::Filled { at: 0, end };
        }
        let Receiving::Filled { at, end } = self.receiving else { return 0 };
        let len = out.len().min(end - at);
        out[..len].copy_from_slice(&self.memory.inbox[at..at + len]);
        self.receiving = Receiving::Filled { at: at + len, end };
        if at + len == end && self.lend_inbox().is_none() {
            self.state = PortState::Ended;
        }
        len
    }

    /// Sends a prefix of `bytes`, and returns its length; 0 if the device has not taken the previous bytes
    /// yet.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(OUTBOX_BYTES);
        if len == 0 || !self.is_flushed() {
            return 0;
        }
        self.memory.outbox[..len].copy_from_slice(&bytes[..len]);
        // SAFETY: the outbox is a static's, and not touched before the device has returned it.
        match unsafe { self.bytes[1].add(&[&self.memory.outbox[..len]], &mut []) } {
            Ok(token) => {
                self.sending = Some((token, len));
                self.transport.notify(BYTES.1);
                len
            }
            Err(_) => {
                self.state = PortState::Ended;
                0
            }
        }
    }

    /// True if the device has taken all bytes.
    pub(crate) fn is_flushed(&mut self) -> bool {
        if let Some((token, len)) = self.sending
            && self.bytes[1].peek_used() == Some(token)
        {
            // SAFETY: these bytes were lent for this token.
            let _nothing_is_written =
                unsafe { self.bytes[1].pop_used(token, &[&self.memory.outbox[..len]], &mut []) };
            self.sending = None;
        }
        self.sending.is_none()
    }

    /// The message that the device has filled next.
    fn received_message(&mut self) -> Option<usize> {
        let token = self.control[0].peek_used()?;
        let at = self.control_tokens.iter().position(|own| *own == token)?;
        let message = self.memory.messages.get_mut(at)?;
        // SAFETY: this message was lent for this token.
        unsafe { self.control[0].pop_used(token, &[], &mut [&mut message[..]]) }.ok()?;
        Some(at)
    }

    fn lend_message(&mut self, at: usize) -> Option<()> {
        let message = self.memory.messages.get_mut(at)?;
        // SAFETY: the message is a static's, and not touched before the device has returned it.
        let token = unsafe { self.control[0].add(&[], &mut [&mut message[..]]) }.ok()?;
        *self.control_tokens.get_mut(at)? = token;
        self.transport.notify(CONTROL.0);
        Some(())
    }

    fn lend_inbox(&mut self) -> Option<()> {
        // SAFETY: the inbox is a static's, and not touched before the device has returned it.
        let token = unsafe { self.bytes[0].add(&[], &mut [&mut self.memory.inbox[..]]) }.ok()?;
        self.receiving = Receiving::Lent(token);
        self.transport.notify(BYTES.0);
        Some(())
    }

    /// Sends a message about a port, with the value 1, and waits until the device has read it.
    fn tell(&mut self, port: u32, event: u16) -> Option<()> {
        let [a, b, c, d] = port.to_le_bytes();
        let [e, f] = event.to_le_bytes();
        let message = [a, b, c, d, e, f, 1, 0];
        self.control[1].add_notify_wait_pop(&[&message], &mut [], &mut self.transport).ok()?;
        Some(())
    }
}

/// Features: several ports, and the layout of virtio 1.
const MULTIPORT: u64 = 1 << 1;
const VERSION_1: u64 = 1 << 32;

/// The first port behind the one that is reserved for a console.
const PORT: u32 = 1;
/// Queues: of messages about ports, and of this port's bytes.
const CONTROL: (u16, u16) = (2, 3);
const BYTES: (u16, u16) = (4, 5);

/// Messages about ports.
const DEVICE_READY: u16 = 0;
const PORT_ADD: u16 = 1;
const PORT_REMOVE: u16 = 2;
const PORT_READY: u16 = 3;
const PORT_OPEN: u16 = 6;

const QUEUE: usize = 4;
/// A device drops messages for which there is no room; it sends up to three at once.
const MESSAGES: usize = QUEUE;
/// With room for the name of a port.
const MESSAGE_BYTES: usize = 64;
const INBOX_BYTES: usize = 512;
const OUTBOX_BYTES: usize = 512;
