//! Seeds of generations and batches.

use pmi_core::wire::snapshot::write_generation;

/// Generations without a pair, with one, with several and with empty texts; batches of puts.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let sets: [&[(&[u8], &[u8])]; 4] = [
        &[],
        &[(b"card-0", b"10.0.0.1:4000")],
        &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"PMI_process_mapping", b"(vector,(0,1,4))")],
        &[(b"", b""), (b"k", b""), (b"", b"x")],
    ];
    let mut seeds: Vec<Vec<u8>> = sets.iter().map(|pairs| generation(pairs)).collect();
    let puts: [&[u8]; 2] = [b"    26cmd=kvs-put;key=a;value=1;", b"cmd=put kvsname=k key=b value=2\n"];
    for count in 1..=puts.len() {
        let message = |put: &&[u8]| {
            let len = u32::try_from(put.len()).expect("a short message");
            [&len.to_le_bytes()[..], put].concat()
        };
        seeds.push(puts[..count].iter().flat_map(message).collect());
    }
    seeds
}

fn generation(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut out = vec![0; 4096];
    let len = write_generation(pairs.iter().copied(), [0, 1], &mut out).expect("there is room");
    out.truncate(len);
    out
}
