//! Step Functions for a function that calls back, and never asks how an execution stands: its role could not either, and what
//! reads that answer need not be in it.

use std::time::Duration;

use crate::{
    error::Error,
    values::{Holder, TaskToken},
    workflows::{Call, Delivery, Execution, StepFunctions, Workflows},
};

pub(super) struct Only(pub(super) StepFunctions);

impl Workflows for Only {
    fn succeed<'a>(
        &'a self,
        token: &'a TaskToken,
        output: String,
        limit: Duration,
    ) -> Call<'a, Delivery> {
        self.0.succeed(token, output, limit)
    }

    fn fail<'a>(
        &'a self,
        token: &'a TaskToken,
        error: &'a str,
        cause: String,
        limit: Duration,
    ) -> Call<'a, Delivery> {
        self.0.fail(token, error, cause, limit)
    }

    fn look_up<'a>(&'a self, _: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(async {
            Err(Error::Misconfigured {
                problem: "this function cannot ask how executions stand: serve it with `serve_with_executions`".to_owned(),
                source: None,
            })
        })
    }
}
