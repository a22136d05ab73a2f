//! Numbers of data types, and the fields of a value of each type.

/// Number of a data type. The set is open: an unknown number is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Type(pub u16);

/// Field of a value. A value of every type is a sequence of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// One byte, the same in both families.
    Byte,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    /// An `int`, behind the number of its size in the fixed family.
    Int,
    /// A `size_t`, behind the number of its size in the fixed family.
    Size,
    /// A process id, behind the number of its size in both families.
    Pid,
    /// A text with its length, which counts the terminator; no length is no text.
    Text,
    /// Bytes with their number.
    Blob,
    /// The number of a type, and a value of it.
    Typed,
    /// The number of a type, a count, and values of the type.
    Array,
    /// As many rows as their counter states.
    Many(Counter, &'static [Field]),
    /// A compressed list, which marks its own end.
    Regex,
}

/// Counter of several rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    I32,
    Int,
    Size,
}

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $shape:expr;)*) => {
        impl Type {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Name of the type in the standard; `None` for an unknown number.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }

            /// Fields of a value; `None` for an unknown or variable type.
            pub(super) const fn shape(self) -> Option<&'static [Field]> {
                match self.0 {
                    $($number => $shape,)*
                    _ => None,
                }
            }
        }
    };
}

use Counter::{I32 as ByI32, Int as ByInt, Size as BySize};
use Field::{
    Array, Blob, Byte, I16, I32, I64, Int, Many, Pid, Regex, Size, Text, Typed, U16, U32, U64,
};

const PROC: &[Field] = &[Text, U32];
const INFO: &[Field] = &[Text, U32, Typed];
const COORD: &[Field] = &[Byte, Many(BySize, &[U32])];
const DISK_STATS: &[Field] = &[Text, U64, U64, U64, U64, U64, U64, U64, U64, U64, U64, U64];
const NET_STATS: &[Field] = &[Text, U64, U64, U64, U64, U64, U64];

types! {
    /// Nothing.
    UNDEF = 0, "UNDEF", Some(&[]);
    /// A byte, 0 or 1.
    BOOL = 1, "BOOL", Some(&[Byte]);
    /// A byte.
    BYTE = 2, "BYTE", Some(&[Byte]);
    /// A text.
    STRING = 3, "STRING", Some(&[Text]);
    /// A `size_t`.
    SIZE = 4, "SIZE", Some(&[Size]);
    /// A process id.
    PID = 5, "PID", Some(&[Pid]);
    /// An `int`.
    INT = 6, "INT", Some(&[Int]);
    /// Eight bits.
    INT8 = 7, "INT8", Some(&[Byte]);
    /// Sixteen bits.
    INT16 = 8, "INT16", Some(&[I16]);
    /// Thirty-two bits.
    INT32 = 9, "INT32", Some(&[I32]);
    /// Sixty-four bits.
    INT64 = 10, "INT64", Some(&[I64]);
    /// An `unsigned int`, which is written as if it had a sign.
    UINT = 11, "UINT", Some(&[Int]);
    /// Eight bits.
    UINT8 = 12, "UINT8", Some(&[Byte]);
    /// Sixteen bits.
    UINT16 = 13, "UINT16", Some(&[U16]);
    /// Thirty-two bits.
    UINT32 = 14, "UINT32", Some(&[U32]);
    /// Sixty-four bits.
    UINT64 = 15, "UINT64", Some(&[U64]);
    /// A `float`, written as a text with six decimals.
    FLOAT = 16, "FLOAT", Some(&[Text]);
    /// A `double`, written as a text with six decimals.
    DOUBLE = 17, "DOUBLE", Some(&[Text]);
    /// Seconds and microseconds.
    TIMEVAL = 18, "TIMEVAL", Some(&[I64, I64]);
    /// Seconds.
    TIME = 19, "TIME", Some(&[U64]);
    /// A status code.
    STATUS = 20, "STATUS", Some(&[I32]);
    /// A value with its type.
    VALUE = 21, "VALUE", Some(&[Typed]);
    /// A process: namespace and rank.
    PROC = 22, "PROC", Some(PROC);
    /// A program to start.
    APP = 23, "APP", Some(&[
        Text,
        Many(ByInt, &[Text]),
        Many(ByI32, &[Text]),
        Text,
        Int,
        Many(BySize, INFO),
    ]);
    /// A key, flags and a value.
    INFO = 24, "INFO", Some(INFO);
    /// A process, a key and a value.
    PDATA = 25, "PDATA", Some(&[Text, U32, Text, Typed]);
    /// A buffer of packed values.
    BUFFER = 26, "BUFFER", Some(&[Byte, Blob]);
    /// Bytes.
    BYTE_OBJECT = 27, "BYTE_OBJECT", Some(&[Blob]);
    /// A key and a value.
    KVAL = 28, "KVAL", Some(&[Text, Typed]);
    /// Lifetime of a published value.
    PERSIST = 30, "PERSIST", Some(&[Byte]);
    /// A pointer, reduced to a byte on the wire.
    POINTER = 31, "POINTER", Some(&[Byte]);
    /// Scope of a committed value.
    SCOPE = 32, "SCOPE", Some(&[Byte]);
    /// Range of a published value or an event.
    DATA_RANGE = 33, "DATA_RANGE", Some(&[Byte]);
    /// A request of a client.
    COMMAND = 34, "COMMAND", Some(&[Byte]);
    /// Flags of an info.
    INFO_DIRECTIVES = 35, "INFO_DIRECTIVES", Some(&[U32]);
    /// The number of a type.
    DATA_TYPE = 36, "DATA_TYPE", Some(&[U16]);
    /// State of a process.
    PROC_STATE = 37, "PROC_STATE", Some(&[Byte]);
    /// Description of a process. Its exit code is not on the wire.
    PROC_INFO = 38, "PROC_INFO", Some(&[Text, U32, Text, Text, Pid, Byte]);
    /// Several values of one type.
    DATA_ARRAY = 39, "DATA_ARRAY", Some(&[Array]);
    /// A rank.
    PROC_RANK = 40, "PROC_RANK", Some(&[U32]);
    /// Requested keys with their qualifiers.
    QUERY = 41, "QUERY", Some(&[Many(ByI32, &[Text]), Many(BySize, INFO)]);
    /// A compressed text.
    COMPRESSED_STRING = 42, "COMPRESSED_STRING", Some(&[Blob]);
    /// Request to a resource manager.
    ALLOC_DIRECTIVE = 43, "ALLOC_DIRECTIVE", Some(&[Byte]);
    /// Standard streams.
    IOF_CHANNEL = 45, "IOF_CHANNEL", Some(&[U16]);
    /// A variable of the environment: name, value, separator.
    ENVAR = 46, "ENVAR", Some(&[Text, Text, Byte]);
    /// Coordinates in a fabric.
    COORD = 47, "COORD", Some(COORD);
    /// A supported attribute.
    REGATTR = 48, "REGATTR", Some(&[Text, Text, U16, Many(ByI32, &[Text])]);
    /// A compressed list.
    REGEX = 49, "REGEX", Some(&[Regex]);
    /// State of a job.
    JOB_STATE = 50, "JOB_STATE", Some(&[Byte]);
    /// The state of a link of a fabric.
    LINK_STATE = 51, "LINK_STATE", Some(&[Byte]);
    /// Processors, as a list.
    PROC_CPUSET = 52, "PROC_CPUSET", Some(&[Text]);
    /// Coordinates of a device in its fabric.
    GEOMETRY = 53, "GEOMETRY", Some(&[Size, Text, Text, Many(BySize, COORD)]);
    /// Distance of a device.
    DEVICE_DIST = 54, "DEVICE_DIST", Some(&[Text, Text, U64, U16, U16]);
    /// The address of a device.
    ENDPOINT = 55, "ENDPOINT", Some(&[Text, Text, Blob]);
    /// A topology. Half of it is memory of one machine, so it cannot be read.
    TOPO = 56, "TOPO", None;
    /// The kind of a device.
    DEVTYPE = 57, "DEVTYPE", Some(&[U64]);
    /// Shared locality of two processes.
    LOCTYPE = 58, "LOCTYPE", Some(&[U16]);
    /// Compressed bytes.
    COMPRESSED_BYTE_OBJECT = 59, "COMPRESSED_BYTE_OBJECT", Some(&[Blob]);
    /// The name of a job.
    PROC_NSPACE = 60, "PROC_NSPACE", Some(&[Text]);
    /// Resource usage of a process.
    PROC_STATS = 61, "PROC_STATS", Some(&[
        Text, Text, U32, Pid, Text, Byte, I64, I64, I32, I16, Text, Text, Text, I16, I64, I64,
    ]);
    /// Traffic of a disk.
    DISK_STATS = 62, "DISK_STATS", Some(DISK_STATS);
    /// Traffic of a network.
    NET_STATS = 63, "NET_STATS", Some(NET_STATS);
    /// Resource usage of a node.
    NODE_STATS = 64, "NODE_STATS", Some(&[
        Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, I64, I64,
        Many(BySize, DISK_STATS),
        Many(BySize, NET_STATS),
    ]);
    /// Packed values of an unnamed format.
    DATA_BUFFER = 65, "DATA_BUFFER", Some(&[Blob]);
    /// A medium of a store.
    STOR_MEDIUM = 66, "STOR_MEDIUM", Some(&[U64]);
    /// Accessibility of a store.
    STOR_ACCESS = 67, "STOR_ACCESS", Some(&[U64]);
    /// Lifetime of a store.
    STOR_PERSIST = 68, "STOR_PERSIST", Some(&[U64]);
    /// Access type of a store.
    STOR_ACCESS_TYPE = 69, "STOR_ACCESS_TYPE", Some(&[U16]);
    /// A device.
    DEVICE = 70, "DEVICE", Some(&[Text, Text, U64]);
    /// Request for a block of resources.
    RESBLOCK_DIRECTIVE = 71, "RESBLOCK_DIRECTIVE", Some(&[Byte]);
    /// An amount of one resource.
    RESOURCE_UNIT = 72, "RESOURCE_UNIT", Some(&[U64, Size]);
    /// A process id on a node.
    NODE_PID = 73, "NODE_PID", Some(&[Text, U32, Pid]);
}
