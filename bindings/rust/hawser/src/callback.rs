//! Stores the failures of callbacks until the call that ran them returns, because no panic may unwind through
//! C.

use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

enum Failure {
    Panic(Box<dyn Any + Send>),
    Error(Error),
}

/// The first failure among the callbacks that an engine owns.
#[derive(Clone, Default)]
pub(crate) struct Pending(Arc<Mutex<Option<Failure>>>);

impl Pending {
    /// Returns the result of `callback`; None if it failed, or if an earlier callback failed.
    pub(crate) fn hold<T>(&self, callback: impl FnOnce() -> Result<T, Error>) -> Option<T> {
        if self.is_set() {
            return None;
        }
        let failure = match catch_unwind(AssertUnwindSafe(callback)) {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(error)) => Failure::Error(error),
            Err(panic) => Failure::Panic(panic),
        };
        *self.slot() = Some(failure);
        None
    }

    pub(crate) fn is_set(&self) -> bool {
        self.slot().is_some()
    }

    /// Resumes the panic, or returns the error, of a callback that failed.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let failure = self.slot().take();
        match failure {
            None => Ok(()),
            Some(Failure::Error(error)) => Err(error),
            Some(Failure::Panic(panic)) => resume_unwind(panic),
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A closure that one call borrows, and its failure.
pub(crate) struct Borrowed<F, E> {
    pub(crate) callback: F,
    error: Option<E>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<F, E> Borrowed<F, E> {
    pub(crate) fn new(callback: F) -> Self {
        Self { callback, error: None, panic: None }
    }

    /// Returns the result of `run(callback)`, or None if it failed.
    pub(crate) fn hold<T>(&mut self, run: impl FnOnce(&mut F) -> Result<T, E>) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(|| run(&mut self.callback))) {
            Ok(Ok(value)) => Some(value),
            Ok(Err(error)) => {
                self.error = Some(error);
                None
            }
            Err(panic) => {
                self.panic = Some(panic);
                None
            }
        }
    }

    /// Resumes the panic, or returns the error, of the closure.
    pub(crate) fn finish(self) -> Result<(), E> {
        if let Some(panic) = self.panic {
            resume_unwind(panic);
        }
        self.error.map_or(Ok(()), Err)
    }
}
