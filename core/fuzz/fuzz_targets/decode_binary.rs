#![no_main]
//! Feeds what libFuzzer makes up to the function of the same name, which says what must hold.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pmi_fuzz::decode_binary(bytes));
