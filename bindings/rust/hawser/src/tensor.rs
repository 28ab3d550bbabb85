//! Weights, gradients and moments: copies, and views without a copy.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::{mem, ptr, slice};

use hawser_sys as sys;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::raw::{c_string, check, json};
use crate::{Code, Engine, Error, Result};

/// The kind of a parameter's tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TensorKind {
    /// The parameter itself.
    Weight,
    /// The gradient while a step is pending, unscaled and unclipped.
    Gradient,
    /// AdamW's m or SGD's momentum buffer.
    Moment1,
    /// AdamW's v.
    Moment2,
    /// The moving average of the parameter (`optimizer.average`).
    Average,
}

impl TensorKind {
    fn raw(self) -> i32 {
        match self {
            Self::Weight => sys::HWS_TENSOR_WEIGHT,
            Self::Gradient => sys::HWS_TENSOR_GRADIENT,
            Self::Moment1 => sys::HWS_TENSOR_MOMENT1,
            Self::Moment2 => sys::HWS_TENSOR_MOMENT2,
            Self::Average => sys::HWS_TENSOR_AVERAGE,
        }
    }
}

/// A parameter of the model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Parameter {
    /// Hawser's name of the parameter.
    pub name: String,
    /// The dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The number of elements.
    pub count: usize,
    /// All other keys, such as the Hugging Face name.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Engine {
    /// Returns all parameters.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        json(|out| unsafe { sys::hws_tensor_list(self.raw(), out) })
    }

    /// Returns a copy of a tensor as f32, row-major. `name`: Hawser's name. Errors:
    /// [`NotFound`](Code::NotFound); [`FailedPrecondition`](Code::FailedPrecondition) for a kind that does
    /// not exist now.
    pub fn tensor(&self, kind: TensorKind, name: &str) -> Result<Vec<f32>> {
        let parameters = self.parameters()?;
        let count = parameters.iter().find(|parameter| parameter.name == name).map_or(0, |found| found.count);
        let mut values = vec![0.0; count];
        self.read_tensor(kind, name, &mut values)?;
        Ok(values)
    }

    /// Copies a tensor to `values`, which must have exactly as many elements. `name`: Hawser's name, or the
    /// Hugging Face name for Hugging Face's layout.
    pub fn read_tensor(&self, kind: TensorKind, name: &str, values: &mut [f32]) -> Result<()> {
        let name = c_string("name", name)?;
        let bytes = mem::size_of_val(values);
        // SAFETY: the library checks the size of the slice before it writes.
        check(unsafe {
            sys::hws_tensor_get(self.raw(), kind.raw(), name.as_ptr(), values.as_mut_ptr().cast(), bytes)
        })
    }

    /// Sets a weight (with its fp32 master copy) or a moment. `name` as for [`Engine::read_tensor`].
    pub fn set_tensor(&mut self, kind: TensorKind, name: &str, values: &[f32]) -> Result<()> {
        let name = c_string("name", name)?;
        let bytes = mem::size_of_val(values);
        // SAFETY: the library checks the size of the slice before it reads.
        check(unsafe {
            sys::hws_tensor_set(self.raw_mut(), kind.raw(), name.as_ptr(), values.as_ptr().cast(), bytes)
        })
    }

    /// Returns norm, largest magnitude and number of non-finite elements of each gradient, while a step is
    /// pending.
    pub fn gradient_statistics(&self) -> Result<Vec<Value>> {
        json(|out| unsafe { sys::hws_tensor_statistics(self.raw(), out) })
    }

    /// Returns a view of a tensor without a copy. `name`: Hawser's name. The view borrows the engine, so the
    /// engine cannot train during the life of the view.
    ///
    /// Errors: those of [`Engine::tensor`]; [`InvalidArgument`](Code::InvalidArgument) for the wrong element
    /// type; [`Unimplemented`](Code::Unimplemented) for tensors that are sharded or in the memory of a GPU.
    ///
    /// ```compile_fail,E0502
    /// # fn look(engine: &mut hawser::Engine) -> hawser::Result<()> {
    /// let view = engine.view::<f32>(hawser::TensorKind::Weight, "final_norm.weight")?;
    /// engine.train_step()?; // would change the contents of `view`
    /// println!("{}", view[0]);
    /// # Ok(()) }
    /// ```
    ///
    /// A view cannot outlive the engine:
    ///
    /// ```compile_fail,E0515
    /// # fn look(config: &hawser::Config) -> hawser::Result<hawser::TensorView<'static, f32>> {
    /// let engine = hawser::Engine::new(config)?;
    /// engine.view::<f32>(hawser::TensorKind::Weight, "final_norm.weight")
    /// # }
    /// ```
    pub fn view<T: Element>(&self, kind: TensorKind, name: &str) -> Result<TensorView<'_, T>> {
        let name = c_string("name", name)?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is written.
        check(unsafe { sys::hws_tensor_view(self.raw(), kind.raw(), name.as_ptr(), &mut raw) })?;
        let view = TensorView { raw: raw.cast(), engine: PhantomData };
        view.check_type(&name.to_string_lossy())?;
        Ok(view)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for super::Bf16 {}
}

/// The element type of a [`TensorView`]: `f32` or [`Bf16`].
pub trait Element: sealed::Sealed + Copy + 'static {
    #[doc(hidden)]
    const DLPACK: (u8, u8);
    #[doc(hidden)]
    const NAME: &'static str;
}

impl Element for f32 {
    const DLPACK: (u8, u8) = (2, 32);
    const NAME: &'static str = "f32";
}

/// A bfloat16 number: the upper 16 bits of an f32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl Element for Bf16 {
    const DLPACK: (u8, u8) = (4, 16);
    const NAME: &'static str = "Bf16";
}

impl From<Bf16> for f32 {
    fn from(number: Bf16) -> Self {
        Self::from_bits(u32::from(number.0) << 16)
    }
}

/// A read-only view of an engine's tensor as a row-major slice, without a copy.
#[must_use]
pub struct TensorView<'a, T> {
    raw: *mut Managed,
    engine: PhantomData<&'a [T]>,
}

// SAFETY: no call can change the memory while the engine is borrowed, and the deleter may run on any thread.
unsafe impl<T: Element> Send for TensorView<'_, T> {}
unsafe impl<T: Element> Sync for TensorView<'_, T> {}

/// DLPack 1.0's DLManagedTensorVersioned.
#[repr(C)]
struct Managed {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: Tensor,
}

/// DLPack's DLTensor.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: [i32; 2],
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

impl<T> TensorView<'_, T> {
    fn tensor(&self) -> &Tensor {
        // SAFETY: the struct lives until its deleter runs, in Drop.
        unsafe { &(*self.raw).tensor }
    }

    /// Returns the dimensions, outermost first.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        let tensor = self.tensor();
        // SAFETY: DLPack's shape has `dimensions` elements.
        let shape = unsafe { slice::from_raw_parts(tensor.shape, tensor.dimensions as usize) };
        shape.iter().map(|&size| size as usize).collect()
    }
}

impl<T: Element> TensorView<'_, T> {
    fn check_type(&self, name: &str) -> Result<()> {
        let tensor = self.tensor();
        if (tensor.code, tensor.bits) == T::DLPACK {
            return Ok(());
        }
        let stored =
            [f32::DLPACK, Bf16::DLPACK].iter().position(|&known| known == (tensor.code, tensor.bits));
        let stored = stored.map_or("another type", |found| [f32::NAME, Bf16::NAME][found]);
        Err(Error::new(
            Code::InvalidArgument,
            format!("the tensor {name} is stored as {stored}, not {}: ask for a view of that type", T::NAME),
        ))
    }
}

impl<T: Element> Deref for TensorView<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let count = self.shape().iter().product();
        // SAFETY: the memory is row-major, has the type that `check_type` verified, and lives as long as
        // `self`.
        unsafe { slice::from_raw_parts(self.tensor().data.cast(), count) }
    }
}

impl<T: Element> fmt::Debug for TensorView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorView").field("type", &T::NAME).field("shape", &self.shape()).finish()
    }
}

impl<T> Drop for TensorView<'_, T> {
    fn drop(&mut self) {
        // SAFETY: DLPack's deleter is called once.
        unsafe {
            if let Some(deleter) = (*self.raw).deleter {
                deleter(self.raw);
            }
        }
    }
}
