//! Nothing is lost without being counted, nothing is counted twice, nothing read is a mixture: with many
//! threads at once, with threads that come and go, with no memory left, and against a model.

mod churn;
mod evictions;
mod exhaustion;
mod histograms;
mod load;
mod model;
mod phases;
mod present;
mod races;
mod rows;
mod streams;
mod truncates;
