//! The cases of PMI-2.

mod attributes;
mod ending;
mod framing;
mod kvs;
mod opening;
mod services;

use super::case::Case;

/// All cases of PMI-2.
pub(super) const CASES: &[&[Case]] = &[
    opening::CASES,
    framing::CASES,
    kvs::CASES,
    attributes::CASES,
    services::CASES,
    ending::CASES,
];
