//! The cases of PMI-1.

mod ending;
mod fences;
mod framing;
mod kvs;
mod opening;
mod services;

use super::case::Case;

/// All cases of PMI-1.
pub(super) const CASES: &[&[Case]] = &[
    opening::CASES,
    framing::CASES,
    kvs::CASES,
    kvs::LIMITS,
    fences::CASES,
    services::CASES,
    ending::CASES,
];
