#![no_main]
//! Feeds libFuzzer's input to the function of the same name, which defines the checks.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pmi_fuzz::decode_snapshot(bytes));
