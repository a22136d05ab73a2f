//! The part of a flattened device tree that is needed to find one property.
//! Spec: Devicetree Specification 0.4, chapter 5.
#![cfg(not(target_arch = "x86_64"))]

/// The value of `name` in the node `node` right below the root, without the zero byte behind it.
pub(crate) fn property<'a>(tree: &'a [u8], node: &[u8], name: &[u8]) -> Option<&'a [u8]> {
    let structure = tree.get(word(tree, 8)? as usize..)?;
    let strings = tree.get(word(tree, 12)? as usize..)?;
    let (mut at, mut depth, mut is_inside) = (0, 0, false);
    loop {
        let token = word(structure, at)?;
        at += 4;
        match token {
            BEGIN => {
                let title = until_zero(structure.get(at..)?);
                depth += 1;
                is_inside = depth == 2 && title == node;
                at += aligned(title.len() + 1);
            }
            END if depth > 0 => {
                depth -= 1;
                is_inside = false;
            }
            PROPERTY => {
                let (len, title) = (word(structure, at)? as usize, word(structure, at + 4)?);
                let value = structure.get(at + 8..at + 8 + len)?;
                if is_inside && until_zero(strings.get(title as usize..)?) == name {
                    return Some(value.strip_suffix(&[0]).unwrap_or(value));
                }
                at += aligned(8 + len);
            }
            NOTHING => {}
            _ => return None,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|b| *b == 0).next().unwrap_or(bytes)
}

const fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

const BEGIN: u32 = 1;
const END: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;
