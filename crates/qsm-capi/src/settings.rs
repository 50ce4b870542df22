//! Settings of a node.

use std::ffi::c_char;

use qsm_binding::{SETTINGS, Settings};

use crate::error::Code;
use crate::guard::{at_mut, call, free, give};
use crate::text;

/// Settings of a node to be started.
#[derive(Debug)]
pub struct QsmSettings(pub(crate) Settings);

/// Makes settings that are all defaults.
///
/// # Safety
/// `settings` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_settings_new(settings: *mut *mut QsmSettings) -> Code {
    // SAFETY: the caller promises it.
    call(|| unsafe { give(settings, QsmSettings(Settings::default()), "settings") })
}

/// Sets one, by its name and as text; an unknown name is answered by the list of all.
///
/// # Safety
/// `settings` is of this library; `name` and `value` are texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_set(
    settings: *mut QsmSettings,
    name: *const c_char,
    value: *const c_char,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (settings, name, value) = unsafe {
            let settings = at_mut(settings, "settings")?;
            (
                settings,
                text::read(name, "name")?,
                text::read(value, "value")?,
            )
        };
        Ok(settings.0.set(name, value)?)
    })
}

/// Name of a setting, by its place in the list of all, from 0: the length of the name in bytes, without
/// the nul; writes as much of it as `size` bytes hold, and a nul. 0 behind the last.
///
/// # Safety
/// `place` points to `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_setting_name(number: usize, place: *mut c_char, size: usize) -> usize {
    let name = SETTINGS.get(number).map_or("", |setting| setting.name);
    // SAFETY: the caller promises so many bytes.
    unsafe { text::write(name, place, size) };
    name.len()
}

/// Meaning of a setting, with unit and default, as [`qsm_setting_name`] its name.
///
/// # Safety
/// As of [`qsm_setting_name`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_setting_meaning(
    number: usize,
    place: *mut c_char,
    size: usize,
) -> usize {
    let meaning = SETTINGS.get(number).map_or("", |setting| setting.meaning);
    // SAFETY: the caller promises so many bytes.
    unsafe { text::write(meaning, place, size) };
    meaning.len()
}

/// Ends their life; nodes that were started with them go on.
///
/// # Safety
/// `settings` is null, or of this library and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_settings_free(settings: *mut QsmSettings) {
    // SAFETY: the caller promises it.
    unsafe { free(settings) }
}
