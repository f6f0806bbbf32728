//! Tests of the virtual GPU on PTX texts, in one program so that it is linked once.

mod attention;
mod calls;
mod cluster;
mod conformance;
mod corners;
mod faults;
mod fp8;
mod hopper;
mod loader;
mod numeric;
mod pairs;
mod races;
mod samples;
mod suppositions;
mod tensor;
mod wgmma;
mod wmma;
