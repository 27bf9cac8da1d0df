//! A dial of a variant: a key, its values, and the effect of a value.

use super::sweep::Item;
use schedlab_base::Result;
use schedlab_kernel::Variant;

/// Applies a value to a variant.
type Set<'t> = Box<dyn Fn(&mut Variant, &str) -> Result<()> + 't>;

/// One key of a variant.
pub(super) struct Dial<'t> {
    pub name: String,
    pub values: Vec<Item<'t>>,
    pub set: Set<'t>,
}
