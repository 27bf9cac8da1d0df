//! Images of a source package in the cache: built, booted, driven. Without a package these tests are skipped.
//!
//! One process holds one image, so each test starts itself again for its work with an image (`again`).

mod again;
mod boot;
mod caches;
mod configs;
mod drive;
mod engine;
mod faults;
mod features;
mod patches;
