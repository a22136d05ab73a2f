//! The cases of PMI-1.

mod ending;
mod fences;
mod framing;
mod opening;
mod services;
mod space;

use super::case::Case;

/// All cases of PMI-1.
pub(super) const CASES: &[&[Case]] = &[
    opening::CASES,
    framing::CASES,
    space::CASES,
    space::LIMITS,
    fences::CASES,
    services::CASES,
    ending::CASES,
];
