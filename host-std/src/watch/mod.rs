//! What the launcher can tell about a run while it goes on: who runs, who waits, and for whom.
//!
//! ```text
//! process   what the system says about one process: its state, where it waits, its processor time
//! ranges    many ranks in few characters: 0-2,5
//! table     all of it as data, which is also what programs read
//! text      the same for people
//! progress  a line on a terminal while a start or an end takes long
//! stall     when a standstill is told, and when it ends the run
//! ```

pub mod process;
pub mod progress;
pub mod stall;
pub mod table;
pub mod text;
