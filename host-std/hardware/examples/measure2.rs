use pmi_host_hardware::hwloc::{Distances, HwlocVersion};
use pmi_host_hardware::linux::Wanted;
use pmi_host_hardware::model::NodeHardware;
use std::path::Path;
use std::time::Instant;
fn main() {
    let root = std::env::args().nth(1).unwrap();
    for devices in [true, false] {
        for _ in 0..3 {
            let a = Instant::now();
            let h = NodeHardware::of_linux(Path::new(&root), Wanted { devices, ..Wanted::HWLOC })
                .unwrap();
            let b = Instant::now();
            let h = h.in_order();
            let c = Instant::now();
            let t = h.hwloc(HwlocVersion::V2);
            let d = Instant::now();
            let x = Distances::new(&h);
            for p in 0..256 {
                std::hint::black_box(x.of(&[p].into_iter().collect()));
            }
            println!(
                "{devices} read {:?} order {:?} xml {:?} {} distances {:?}",
                b - a,
                c - b,
                d - c,
                t.len(),
                d.elapsed()
            );
        }
    }
}
