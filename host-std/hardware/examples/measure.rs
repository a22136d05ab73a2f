use pmi_host_hardware::described::write_tree;
use pmi_host_hardware::hwloc::HwlocVersion;
use pmi_host_hardware::linux::{Allowed, Caches, Wanted};
use pmi_host_hardware::model::NodeHardware;
use std::path::Path;
use std::time::Instant;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.len() > 2 {
        let text = std::fs::read_to_string(&args[1]).unwrap();
        let machine = NodeHardware::of_description(&text).unwrap();
        write_tree(&machine, Path::new(&args[2])).unwrap();
        return;
    }
    let root = Path::new(&args[1]);
    let all = Wanted { devices: true, ..Wanted::HWLOC };
    for (name, wanted) in [
        ("all", all),
        ("no devices", Wanted::HWLOC),
        ("no caches", Wanted { caches: Caches::None, ..all }),
    ] {
        let mut best = f64::MAX;
        let mut text = String::new();
        for _ in 0..10 {
            let start = Instant::now();
            let hardware = NodeHardware::of_linux(root, wanted).unwrap();
            let read = start.elapsed();
            let hardware = if root == Path::new("/") {
                hardware.within(&Allowed::of_self(root))
            } else {
                hardware
            };
            text = hardware.in_order().hwloc(HwlocVersion::V2);
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
            if best == start.elapsed().as_secs_f64() * 1e3 {
                eprintln!("{read:?}");
            }
        }
        println!("{name}: {best:.2} ms, {} bytes", text.len());
        if name == "all" {
            std::fs::write("/tmp/w/ov/topo.xml", &text).unwrap();
        }
    }
}
