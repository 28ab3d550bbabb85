//! Configs, which specify what to train and how, and their plans.

use std::path::Path;

use hawser_sys as sys;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::raw::{c_path, c_string, check, json, text, Buffer, Handle};
use crate::{Code, Error, Result};

/// The config of a run: what to train, and how.
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

/// A problem that [`Config::validate`] found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// The field, as a JSON pointer.
    pub pointer: String,
    /// The problem and the value.
    pub message: String,
    /// How to fix it.
    #[serde(default)]
    pub fix: String,
}

/// The result of [`Config::prove`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Proof {
    /// True if losses, gradients, weights and moments were bit-identical.
    pub equal: bool,
    /// The first difference: "step", "what", "tensor", "index", and the values.
    pub first_difference: Option<Value>,
    /// The settings with which plain data parallelism is bit-identical, by JSON pointer.
    #[serde(default)]
    pub same_bits: Map<String, Value>,
    /// The number of ranks of the layout.
    pub ranks: u64,
    /// The number of steps trained.
    pub steps: u64,
    /// The number of tensors compared.
    pub tensors: u64,
    /// The number of elements compared.
    pub elements: u64,
    /// The gradient norm of each step; None if it is not finite.
    #[serde(default)]
    pub grad_norms: Vec<Option<f64>>,
    /// The number of steps in which clipping changed the gradients.
    #[serde(default)]
    pub clipped_steps: u64,
    /// The distance of the first gradients from float64, in three orders of summation.
    #[serde(default)]
    pub distance_to_f64: Value,
    /// For tensor and context parallelism: among the distances to one rank's gradients, the closest to its
    /// limit.
    #[serde(default)]
    pub distance_to_one_rank: Value,
    /// For tensor and context parallelism: among the distances to float64 gradients, the closest to its
    /// limit.
    #[serde(default)]
    pub distance_to_f64_model: Value,
    /// For experts under tensor or context parallelism: "least_margin", and "moved" choices of experts.
    #[serde(default)]
    pub choices_of_experts: Value,
    /// The fields that were reduced for the proof: "pointer", "from", "to".
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

    /// Parses JSON. Errors: [`Code::ConfigParse`] gives the position at which the text is not JSON;
    /// [`Code::ConfigInvalid`] lists all unknown keys, wrong types and wrong names at once.
    pub fn parse(json: &str) -> Result<Self> {
        Self::parse_as(json.as_bytes(), sys::HWS_FORMAT_JSON)
    }

    /// Makes a config from the result of [`Config::to_binary`].
    pub fn from_binary(data: &[u8]) -> Result<Self> {
        Self::parse_as(data, sys::HWS_FORMAT_BINARY)
    }

    /// Makes a config from a value that serde can serialise to JSON, such as `serde_json::json!({...})`.
    pub fn from_value(value: &impl Serialize) -> Result<Self> {
        Self::parse(&to_json("config", value)?)
    }

    /// Returns a built-in preset, such as "gpt2-124m" or "quickstart". Errors: [`Code::NotFound`].
    pub fn preset(name: &str) -> Result<Self> {
        let name = c_string("name", name)?;
        Self::make(|out| unsafe { sys::hws_config_preset(name.as_ptr(), out) })
    }

    /// Returns the config of the model in a checkpoint or a Hugging Face folder: its model section, its
    /// vocabulary and `init.from`. Data, optimizer and run settings are yours to set.
    pub fn from_model(path: impl AsRef<Path>) -> Result<Self> {
        let path = c_path("path", path.as_ref())?;
        Self::make(|out| unsafe { sys::hws_config_from_model(path.as_ptr(), out) })
    }

    /// Returns the names of the presets.
    pub fn presets() -> Result<Vec<String>> {
        json(|out| unsafe { sys::hws_config_presets(out) })
    }

    /// Returns the JSON Schema of a config.
    pub fn schema() -> Result<Value> {
        json(|out| unsafe { sys::hws_config_schema(sys::HWS_FORMAT_JSON, out) })
    }

    /// Returns a copy.
    pub fn try_clone(&self) -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_config_clone(self.raw(), out) })
    }

    /// Sets a field, a section or an array element. `pointer`: a JSON pointer, such as "/model/layers". On
    /// error the config is unchanged.
    pub fn set(&mut self, pointer: &str, value: impl Serialize) -> Result<&mut Self> {
        let json = c_string("value", to_json(pointer, &value)?)?;
        let pointer = c_string("pointer", pointer)?;
        check(unsafe { sys::hws_config_set(self.0.get(), pointer.as_ptr(), json.as_ptr()) })?;
        Ok(self)
    }

    /// Returns all problems of the config and of the files that it names; none for a valid config.
    pub fn validate(&self) -> Result<Vec<Problem>> {
        json(|out| unsafe { sys::hws_config_validate(self.raw(), out) })
    }

    /// Explains why a field has its value: value, origin, rule, default, bounds, unit and documentation.
    /// `pointer`: a field, a section, or "" for all fields.
    pub fn explain(&self, pointer: &str) -> Result<Value> {
        let pointer = c_string("pointer", pointer)?;
        json(|out| unsafe { sys::hws_config_explain(self.raw(), pointer.as_ptr(), out) })
    }

    /// Proves that the layout of ranks changes no number: trains a smaller model for `steps` steps (1 to 1,000)
    /// on the config's mesh and without one, and compares every bit.
    pub fn prove(&self, steps: u16) -> Result<Proof> {
        json(|out| unsafe { sys::hws_config_prove_layout(self.raw(), steps.into(), out) })
    }

    /// Returns a config for the same run on another number of ranks, with the same rows per step, so that the
    /// stream of samples continues from a checkpoint of this config.
    pub fn fit_ranks(&self, ranks: u16) -> Result<Self> {
        Self::make(|out| unsafe { sys::hws_config_fit_ranks(self.raw(), ranks.into(), out) })
    }

    /// Returns the fields that were set, as JSON.
    pub fn to_json(&self) -> Result<String> {
        text(|out| unsafe { sys::hws_config_serialize(self.raw(), sys::HWS_FORMAT_JSON, out) })
    }

    /// Returns every field, with defaults, presets and rules applied.
    pub fn resolved(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_config_serialize(self.raw(), sys::HWS_FORMAT_RESOLVED, out) })
    }

    /// Returns the fields that were set, in the binary format.
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
        .map_err(|error| Error::new(Code::InvalidArgument, format!("{name} is not JSON: {error}")))
}

/// The exact schedule and memory of a config, computed without allocating a tensor, for a mesh of any size.
#[must_use]
pub struct Plan(Handle<sys::hws_plan>);

impl Plan {
    /// Computes the plan of a config. Errors: those of [`Engine::new`](crate::Engine::new), except for
    /// memory.
    pub fn new(config: &Config) -> Result<Self> {
        Handle::make(sys::hws_plan_destroy, |out| unsafe { sys::hws_plan_create(config.raw(), out) })
            .map(Self)
    }

    /// Computes the plan of a config for devices that this machine need not have, and predicts how long a
    /// step takes there. `cluster`: the text of a cluster file, or the name of one in the library, such as
    /// "h100-80". `tokens`: the tokens of a whole run, to predict its days; 0: no prediction of a run.
    /// `imbalance`: the load of the busiest rank's experts over the mean of all ranks; 1: balanced.
    pub fn new_on(config: &Config, cluster: &str, tokens: f64, imbalance: f64) -> Result<Self> {
        let cluster = c_string("cluster", cluster)?;
        Handle::make(sys::hws_plan_destroy, |out| unsafe {
            sys::hws_plan_create_on(config.raw(), cluster.as_ptr(), tokens, imbalance, out)
        })
        .map(Self)
    }

    /// Searches for the fastest layouts of a config on a cluster. Fields that the config sets stay as they are.
    /// `ranks`: the number of devices; 0: those of the cluster, or else of the config's mesh. `top`: the number
    /// of layouts. `imbalance`: as for [`Plan::new_on`].
    pub fn search(config: &Config, cluster: &str, ranks: i64, top: i32, imbalance: f64) -> Result<Self> {
        let cluster = c_string("cluster", cluster)?;
        Handle::make(sys::hws_plan_destroy, |out| unsafe {
            sys::hws_plan_search(config.raw(), cluster.as_ptr(), ranks, top, imbalance, out)
        })
        .map(Self)
    }

    /// Returns the list of instructions, and memory by category, as text for people.
    pub fn text(&self) -> Result<String> {
        text(|out| unsafe { sys::hws_plan_report(self.0.get(), sys::HWS_FORMAT_TEXT, out) })
    }

    /// Returns the plan with sizes, for programs.
    pub fn report(&self) -> Result<PlanReport> {
        json(|out| unsafe { sys::hws_plan_report(self.0.get(), sys::HWS_FORMAT_JSON, out) })
    }

    /// Returns the predicted step of a plan for a cluster, in the form of
    /// [`Engine::trace`](crate::Engine::trace). Errors: [`Code::FailedPrecondition`] for a plan that
    /// predicts no step.
    pub fn trace(&self) -> Result<Value> {
        json(|out| unsafe { sys::hws_plan_trace(self.0.get(), sys::HWS_FORMAT_JSON, out) })
    }

    /// Returns the predicted step as an SVG image. Errors: those of [`Plan::trace`].
    pub fn trace_svg(&self) -> Result<String> {
        text(|out| unsafe { sys::hws_plan_trace(self.0.get(), sys::HWS_FORMAT_SVG, out) })
    }
}

/// A [`Plan`] in numbers: the memory of one rank, and the FLOPs of the whole model.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanReport {
    /// Bytes by category.
    pub memory: Map<String, Value>,
    /// Total bytes.
    pub total_bytes: u64,
    /// The number of parameters of the model.
    pub parameters: u64,
    /// FLOPs per token of training.
    pub flops_per_token: f64,
    /// The number of ranks of the mesh.
    pub ranks: u64,
    /// All other keys.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}
