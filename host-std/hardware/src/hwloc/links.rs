//! Links between devices as matrices of hwloc 2: a row and a column for each device, and 0 where two of them
//! are not linked.

use crate::device::LinkKind;

/// Kind of a matrix. hwloc itself, by the libraries of the makers, writes the bandwidth of NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatrixKind {
    /// Numbers of links of NVLink.
    NvLink,
    /// Bandwidths of NVLink in MB/s.
    NvLinkBandwidth,
    /// Weights of xGMI.
    Xgmi,
}

impl MatrixKind {
    /// Kind of a matrix with a name; `None` for other matrices, as of latencies between memory domains.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let all = [Self::NvLink, Self::NvLinkBandwidth, Self::Xgmi];
        all.into_iter().find(|kind| kind.name() == name)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NvLink => "NVLinkCount",
            Self::NvLinkBandwidth => "NVLinkBandwidth",
            Self::Xgmi => "XGMIWeight",
        }
    }

    /// Number of hwloc for values from the system that grow with the bandwidth (9) or with the latency (5).
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::NvLink | Self::NvLinkBandwidth => 9,
            Self::Xgmi => 5,
        }
    }

    /// Value of a link; `None` for links of another kind.
    pub(super) fn value(self, link: LinkKind) -> Option<u64> {
        match (self, link) {
            (Self::NvLink, LinkKind::NvLink { count: value })
            | (Self::Xgmi, LinkKind::Xgmi { weight: value }) => Some(value.into()),
            _ => None,
        }
    }

    /// Link with a value; `None` for no link.
    pub(super) fn link(self, value: u64) -> Option<LinkKind> {
        let number = |value| u32::try_from(value).ok().filter(|value| *value > 0);
        match self {
            Self::NvLink => Some(LinkKind::NvLink { count: number(value)? }),
            Self::NvLinkBandwidth => {
                // hwloc states 25 GB/s for a link, and 20 GB/s for one of the first generation, of which no
                // GPU has five.
                let of_link =
                    [25_000, 20_000].into_iter().find(|one| value.is_multiple_of(*one))?;
                Some(LinkKind::NvLink { count: number(value / of_link)? })
            }
            Self::Xgmi => Some(LinkKind::Xgmi { weight: number(value)? }),
        }
    }
}
