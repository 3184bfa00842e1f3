//! Who watches a stack, such as a test that searches its logs for secrets.

/// Sees everything that passes through a stack, and reads the logs of its functions at its end.
pub trait Observer: std::fmt::Debug + Send + Sync {
    /// An event or a response of a function, or a request or a response of `DynamoDB` or Step Functions.
    fn see(&self, passing: &[u8]);

    /// What is wrong with the log of a function.
    fn finds(&self, log: &[u8]) -> Option<String>;

    /// The stack has ended, and this was found in the logs of its functions.
    fn ended(&self, found: &[String]);
}
