//! The cases of PMI-2.

mod attributes;
mod ending;
mod framing;
mod opening;
mod services;
mod space;

use super::case::Case;

/// All cases of PMI-2.
pub(super) const CASES: &[&[Case]] = &[
    opening::CASES,
    framing::CASES,
    space::CASES,
    attributes::CASES,
    services::CASES,
    ending::CASES,
];
