//! Names derived from bytes: 32 hexadecimal digits of 128-bit FNV-1a, short for folders. Not safe against forgery.

/// The name of a file by its content; folders of cells are named so.
pub fn content_hash(bytes: &[u8]) -> String {
    format!("{:032x}", fnv1a_128(bytes))
}

/// FNV-1a with the published 128-bit offset and prime.
fn fnv1a_128(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, b| (hash ^ u128::from(*b)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_test_vector_holds() {
        assert_eq!(content_hash(b"a"), "d228cb696f1a8caf78912b704e4a8964");
    }
}
