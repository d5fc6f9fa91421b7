// SPDX-License-Identifier: Apache-2.0
// Ten million private counts from Rust, without a crate: epsilon 0.1, and a person is in one count.
use std::ffi::{c_char, c_int, CStr, CString};

#[repr(C)]
struct Opaque([u8; 0]);

extern "C" {
    fn dpfast_discrete_laplace(scale: *const c_char, made: *mut *mut Opaque) -> c_int;
    fn dpfast_add_int64(
        noise: *const Opaque, n: i64, counts: *const i64, out: *mut i64, lower: i64, upper: i64,
    ) -> c_int;
    fn dpfast_free(noise: *mut Opaque);
    fn dpfast_message(status: c_int) -> *const c_char;
}

/// A law with its scale. It never changes, so any thread may use it.
struct Noise(*mut Opaque);
unsafe impl Send for Noise {}
unsafe impl Sync for Noise {}

fn done(status: c_int) -> Result<(), String> {
    match status {
        0 => Ok(()),
        // Messages are texts of the library's own, which last.
        _ => Err(unsafe { CStr::from_ptr(dpfast_message(status)) }.to_string_lossy().into_owned()),
    }
}

impl Noise {
    fn discrete_laplace(scale: &str) -> Result<Noise, String> {
        let (text, mut made) = (CString::new(scale).map_err(|e| e.to_string())?, std::ptr::null_mut());
        done(unsafe { dpfast_discrete_laplace(text.as_ptr(), &mut made) })?;
        Ok(Noise(made))
    }

    /// Adds noise in place; on an error every count is 0.
    fn add(&self, counts: &mut [i64]) -> Result<(), String> {
        let at = counts.as_mut_ptr();
        done(unsafe { dpfast_add_int64(self.0, counts.len() as i64, at, at, i64::MIN, i64::MAX) })
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        unsafe { dpfast_free(self.0) }
    }
}

fn main() -> Result<(), String> {
    let mut counts: Vec<i64> = (0..10_000_000).map(|i| i % 1000).collect();
    let noise = Noise::discrete_laplace("1/0.1")?;
    let begin = std::time::Instant::now();
    noise.add(&mut counts)?;
    println!("Rust: {:.2} ns a count", begin.elapsed().as_nanos() as f64 / counts.len() as f64);
    Ok(())
}
