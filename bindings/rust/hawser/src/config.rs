//! What to train, and how: a config and its plan.

use std::path::Path;

use hawser_sys as sys;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::raw::{c_path, c_string, check, json, text, Buffer, Handle};
use crate::{Code, Error, Result};

/// What to train, and how.
///
/// ```no_run
/// # fn main() -> hawser::Result<()> {
/// let mut config = hawser::Config::preset("quickstart")?;
/// config.set("/train/steps", 100)?.set("/precision", "bf16")?;
/// for problem in config.validate()? {
///     eprintln!("{}: {} ({})", problem.pointer, problem.message, problem.fix);
/// }
/// # Ok(()) }
/// ```
#[must_use]
pub struct Config(Handle<sys::hws_config>);

/// What [`Config::validate`] found wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// The field, as a JSON pointer.
    pub pointer: String,
    /// What is wrong with which value.
    pub message: String,
    /// What to do.
    #[serde(default)]
    pub fix: String,
}

/// What [`Config::prove`] found.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Proof {
    /// Whether losses, gradients, weights and moments were equal bit by bit.
    pub equal: bool,
    /// Where they first differed: "step", "what", "tensor", "index", and the values.
    pub first_difference: Option<Value>,
    /// The settings with which plain data parallelism has the same bits, by JSON pointer.
    #[serde(default)]
    pub same_bits: Map<String, Value>,
    /// Ranks of the layout.
    pub ranks: u64,
    /// Steps trained.
    pub steps: u64,
    /// Tensors compared.
    pub tensors: u64,
    /// Elements compared.
    pub elements: u64,
    /// The gradient norm of each step; None if it is not finite.
    #[serde(default)]
    pub grad_norms: Vec<Option<f64>>,
    /// The number of steps in which clipping changed the gradients.
    #[serde(default)]
    pub clipped_steps: u64,
    /// How far the first gradients are from float64, in three orders of summation.
    #[serde(default)]
    pub distance_to_f64: Value,
    /// Of tensor- and context-parallel ranks: the gradient that comes closest to its limit against one rank.
    #[serde(default)]
    pub distance_to_one_rank: Value,
    /// The same against gradients computed in float64.
    #[serde(default)]
    pub distance_to_f64_model: Value,
    /// Of experts under tensor or context parallelism: "least_margin" and "moved" choices.
    #[serde(default)]
    pub choices_of_experts: Value,
    /// What was made smaller: "pointer", "from", "to".
    #[serde(default)]
    pub shrunk: Vec<Value>,
}

impl Config {
    fn make(create: impl FnOnce(*mut *mut sys::hws_config) -> sys::hws_status) -> Result<Self> {
        Handle::make(sys::hws_config_destroy, create).map(Self)
    }

    fn parse_as(data: &[u8], format: i32) -> Result<Self> {
        // SAFETY: the pointer and the length are those of a slice.
        Self::make(|out| unsafe { sys::hws_config_parse(data.as_ptr().cast(), data.len(), format, out) })
    }

    /// From JSON. Errors: [`Code::ConfigParse`] says where the text stops being JSON; [`Code::ConfigInvalid`]
    /// has every unknown key, wrong type and wrong name at once.
    pub fn parse(json: &str) -> Result<Self> {
        Self::parse_as(json.as_bytes(), sys::HWS_FORMAT_JSON)
    }

    /// From what [`Config::to_binary`] gave.
    pub fn from_binary(data: &[u8]) -> Result<Self> {
        Self::parse_as(data, sys::HWS_FORMAT_BINARY)
    }

    /// From anything that serde makes JSON of, such as `serde_json::json!({...})`.
    pub fn from_value(value: &impl Serialize) -> Result<Self> {
        Self::parse(&to_json("config", value)?)
    }

    /// A built-in preset, such as "gpt2-124m" or "quickstart". Errors: [`Code::NotFound`].
    pub fn preset(name: &str) -> Result<Self> {
        let name = c_string("name", name)?;
        Self::make(|out| unsafe { sys::hws_config_preset(name.as_ptr(), out) })
    }

    /// The config of the model in a checkpoint or a Hugging Face folder: its model section, its vocabulary and
    /// `init.from`. Data, optimizer and run settings are left to you.
    pub fn from_model(path: impl AsRef<Path>) -> Result<Self> {
        let path = c_path("path", path.as_ref())?;
        Self::make(|out| unsafe { sys::hws_config_from_model(path.as_ptr(), out) })
    }

    /// The names of the presets.
    pub fn presets() -> Result<Vec<String>> {
        json(|out| unsafe { sys::hws_config_presets(out) })
    }

    /// The JSON Schema of a config.
    pub fn schema() -> Result<Value> {
        json(|out| unsafe { sys::hws_config_schema(sys::HWS_FORMAT_JSON, out) })
    }

    /// A copy.
    pub fn try_clone(&self) -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_config_clone(self.raw(), out) })
    }

    /// Sets a field, a section or an array element. `pointer`: a JSON pointer, "/model/layers". On error the
    /// config is unchanged.
    pub fn set(&mut self, pointer: &str, value: impl Serialize) -> Result<&mut Self> {
        let json = c_string("value", to_json(pointer, &value)?)?;
        let pointer = c_string("pointer", pointer)?;
        check(unsafe { sys::hws_config_set(self.0.get(), pointer.as_ptr(), json.as_ptr()) })?;
        Ok(self)
    }

    /// All problems of the config and of the files that it names; none for a valid one.
    pub fn validate(&self) -> Result<Vec<Problem>> {
        json(|out| unsafe { sys::hws_config_validate(self.raw(), out) })
    }

    /// Why a field has its value: value, origin, rule, default, bounds, unit and documentation. `pointer`: a
    /// field, a section, or "" for all.
    pub fn explain(&self, pointer: &str) -> Result<Value> {
        let pointer = c_string("pointer", pointer)?;
        json(|out| unsafe { sys::hws_config_explain(self.raw(), pointer.as_ptr(), out) })
    }

    /// Proves that the layout of ranks changes no number: trains a smaller model for `steps` steps (1 to 1,000)
    /// on the config's mesh and without one, and compares every bit.
    pub fn prove(&self, steps: u16) -> Result<Proof> {
        json(|out| unsafe { sys::hws_config_prove_layout(self.raw(), steps.into(), out) })
    }

    /// The same run on another number of ranks: a config with the same rows in a step, so that the stream of
    /// samples goes on where a checkpoint of this one left it.
    pub fn fit_ranks(&self, ranks: u16) -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_config_fit_ranks(self.raw(), ranks.into(), out) })
    }

    /// The fields that were set, as JSON.
    pub fn to_json(&self) -> Result<String> {
        text(|out| unsafe { sys::hws_config_serialize(self.raw(), sys::HWS_FORMAT_JSON, out) })
    }

    /// Every field, with defaults, presets and rules applied.
    pub fn resolved(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_config_serialize(self.raw(), sys::HWS_FORMAT_RESOLVED, out) })
    }

    /// The fields that were set, in the binary format.
    pub fn to_binary(&self) -> Result<Vec<u8>> {
        let buffer =
            Buffer::of(|out| unsafe { sys::hws_config_serialize(self.raw(), sys::HWS_FORMAT_BINARY, out) })?;
        Ok(buffer.bytes().to_vec())
    }

    pub(crate) fn raw(&self) -> *const sys::hws_config {
        self.0.get()
    }
}

fn to_json(name: &str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(Code::InvalidArgument, format!("{name} is no JSON: {error}")))
}

/// The exact schedule and memory of a config, computed without allocating a tensor, for a mesh of any size.
#[must_use]
pub struct Plan(Handle<sys::hws_plan>);

impl Plan {
    /// Errors: those of [`Engine::new`](crate::Engine::new), except for memory.
    pub fn new(config: &Config) -> Result<Self> {
        Handle::make(sys::hws_plan_destroy, |out| unsafe { sys::hws_plan_create(config.raw(), out) })
            .map(Self)
    }

    /// The list of instructions, and memory by category, for people.
    pub fn text(&self) -> Result<String> {
        text(|out| unsafe { sys::hws_plan_report(self.0.get(), sys::HWS_FORMAT_TEXT, out) })
    }

    /// The same with sizes for programs.
    pub fn report(&self) -> Result<PlanReport> {
        json(|out| unsafe { sys::hws_plan_report(self.0.get(), sys::HWS_FORMAT_JSON, out) })
    }
}

/// A [`Plan`] in numbers. Memory is that of one rank, FLOPs those of the whole model.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanReport {
    /// Bytes by category.
    pub memory: Map<String, Value>,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Parameters of the model.
    pub parameters: u64,
    /// Of training.
    pub flops_per_token: f64,
    /// Ranks of the mesh.
    pub ranks: u64,
    /// All other keys.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}
