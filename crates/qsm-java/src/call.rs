//! Calls from Java: errors become exceptions, and no panic crosses the border.

use std::any::Any;
use std::time::Duration;

use jni::errors::{Error, ErrorPolicy};
use jni::objects::{JObjectArray, JString, JThrowable};
use jni::sys::jlong;
use jni::{Env, EnvUnowned, jni_sig, jni_str};
use qsm::ErrorCode;
use qsm::attach::AttachError;
use qsm::{RecvError, RequestError, SendError, StartError};
use qsm_binding::SettingError;
use qsm_history::{HistoryError, PositionError};
use qsm_replica::{LiveError, ReplicaError};

/// Numbers of errors that the library does not have; the interface for C has the same.
const NULL: u16 = 1701;
const SETTING: u16 = 1703;
const PANICKED: u16 = 1704;

/// An error on its way to Java.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u16,
    text: String,
}

impl Failure {
    pub(crate) fn null(name: &str) -> Self {
        let text = format!("{name} is null; give an object");
        Self { code: NULL, text }
    }

    pub(crate) fn system(error: &std::io::Error) -> Self {
        let text = format!("no descriptor: {error}; raise `ulimit -n`");
        Self::of(ErrorCode::StartSystem, &text)
    }

    pub(crate) fn position(error: &PositionError) -> Self {
        let text = format!("no position: {error}");
        let code = SETTING;
        Self { code, text }
    }

    fn of(code: ErrorCode, error: &impl ToString) -> Self {
        let (code, text) = (code.number(), error.to_string());
        Self { code, text }
    }

    fn fault(said: &str) -> Self {
        let text = format!("the library has a fault: {said}");
        let code = PANICKED;
        Self { code, text }
    }
}

macro_rules! failures {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::of(error.code(), &error)
            }
        })+
    };
}

failures!(
    StartError,
    RequestError,
    SendError,
    RecvError,
    AttachError,
    HistoryError,
    ReplicaError,
    LiveError
);

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        let (code, text) = (SETTING, error.to_string());
        Self { code, text }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NullPtr(_) => Self::null("an argument"),
            // An exception that is on its way goes before this.
            other => Self::fault(&other.to_string()),
        }
    }
}

/// Runs a call. An error is thrown, and the call's result is then a zero that Java does not see.
/// What a call had begun when it panicked is valid: objects are shared between threads, and hold no
/// half-made state.
pub(crate) fn call<'local, T: Default>(
    mut env: EnvUnowned<'local>,
    work: impl FnOnce(&mut Env<'local>) -> Result<T, Failure>,
) -> T {
    env.with_env(work).resolve::<Thrown>()
}

/// Throws what went wrong, as the class that Java has for the code.
struct Thrown;

impl Thrown {
    fn throw(env: &mut Env<'_>, failure: &Failure) -> Result<(), Error> {
        if env.exception_check() {
            return Ok(());
        }
        let text = env.new_string(&failure.text)?;
        let code = i32::from(failure.code);
        let made = env.call_static_method(
            jni_str!("io/quicksilver/qsm/QsmException"),
            jni_str!("of"),
            jni_sig!("(ILjava/lang/String;)Lio/quicksilver/qsm/QsmException;"),
            &[code.into(), (&text).into()],
        )?;
        let exception = env.cast_local::<JThrowable<'_>>(made.l()?)?;
        match env.throw(exception) {
            // So it says that it is thrown.
            Err(Error::JavaException) => Ok(()),
            other => other,
        }
    }
}

impl<T: Default> ErrorPolicy<T, Failure> for Thrown {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _: &mut (),
        failure: Failure,
    ) -> Result<T, Error> {
        Self::throw(env, &failure)?;
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _: &mut (),
        panic: Box<dyn Any + Send + 'static>,
    ) -> Result<T, Error> {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::throw(env, &Failure::fault(said.unwrap_or_default()))?;
        Ok(T::default())
    }
}

/// Time of Java: nanoseconds, negative ones for ever.
pub(crate) fn limit(nanoseconds: jlong) -> Duration {
    const CENTURY: Duration = Duration::from_secs(100 * 366 * 86_400);
    u64::try_from(nanoseconds).map_or(CENTURY, Duration::from_nanos)
}

/// Strings of Java.
pub(crate) type Strings<'local> = JObjectArray<'local, JString<'local>>;

/// Reads strings.
pub(crate) fn read(env: &mut Env<'_>, strings: &Strings<'_>) -> Result<Vec<String>, Failure> {
    let count = strings.len(env)?;
    let mut read = Vec::with_capacity(count);
    for index in 0..count {
        let string = strings.get_element(env, index)?;
        read.push(string.try_to_string(env)?);
        env.delete_local_ref(string);
    }
    Ok(read)
}

/// Makes strings.
pub(crate) fn strings<'local, S: AsRef<str>>(
    env: &mut Env<'local>,
    given: &[S],
) -> Result<Strings<'local>, Failure> {
    let made = env.new_object_type_array::<JString<'_>>(given.len(), JString::null())?;
    for (index, text) in given.iter().enumerate() {
        let string = env.new_string(text)?;
        made.set_element(env, index, &string)?;
        env.delete_local_ref(string);
    }
    Ok(made)
}
