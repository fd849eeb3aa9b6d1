//! The execution of a script: one thread per connection, so that one may wait for another's lock.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler, Params, Statement, Value};

use crate::script::{ExpectedEnding, Parameter, Script, ScriptStep, StepAction};
use crate::server::{LIMIT, Server};
use crate::{Failure, Result, script};

/// The connections of a script.
#[derive(Debug)]
pub struct ScriptConnections {
    connections: Vec<Connection>,
    control: Conn,
}

#[derive(Debug)]
struct Connection {
    id: u64,
    orders: Option<Sender<StepAction>>,
    answers: Receiver<std::result::Result<(), mysql::Error>>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptConnections {
    /// Opens the connections of a script, with `schema` as their current one.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn open(server: &Server, script: &Script, schema: &str) -> Result<ScriptConnections> {
        let count = script.steps.iter().map(|step| step.connection).max().unwrap_or(1);
        let user = |at: usize| script.users.get(&(at + 1)).map_or("root", String::as_str);
        let connections =
            (0..count).map(|at| Connection::open(server, schema, user(at))).collect::<Result<_>>()?;
        Ok(ScriptConnections { connections, control: server.client()? })
    }

    /// Returns connection ids, in the script's order.
    pub fn ids(&self) -> Vec<u64> {
        self.connections.iter().map(|c| c.id).collect()
    }

    /// Returns ids of the connections that the script has closed.
    pub fn closed(&self) -> Vec<u64> {
        self.connections.iter().filter(|c| c.orders.is_none()).map(|c| c.id).collect()
    }

    /// Runs every step. Returns the endings of those that may end in any way, in order.
    ///
    /// # Errors
    /// When a step fails that should not, or does not fail as it should.
    pub fn run(&mut self, script: &Script) -> Result<Vec<String>> {
        // The expected ending of a sent statement, until it is reaped.
        let mut expected = HashMap::new();
        let mut endings = Vec::new();
        for step in &script.steps {
            let ended = self
                .step(step, &mut expected)
                .map_err(|e| Failure::Setup(format!("{}.sql, line {}: {e}", script.name, step.line)))?;
            endings.extend(ended);
        }
        Ok(endings)
    }

    fn step(
        &mut self,
        step: &ScriptStep,
        expected: &mut HashMap<usize, ExpectedEnding>,
    ) -> Result<Option<String>> {
        let at = step.connection - 1;
        match &step.action {
            StepAction::Until(sql) => self.wait_until(sql).map(|()| None),
            StepAction::Control(sql) => Ok(self.control.query_drop(sql).map(|()| None)?),
            StepAction::Disconnect => {
                self.connections[at].close();
                Ok(None)
            }
            StepAction::Reap => {
                let ending = expected.remove(&at).ok_or_else(|| Failure::Setup("nothing was sent".into()))?;
                self.answer(at, ending)
            }
            action => {
                if let Err(closed) = self.order(at, action.clone()) {
                    return if step.ending == ExpectedEnding::Any {
                        Ok(Some("closed".into()))
                    } else {
                        Err(closed)
                    };
                }
                if step.send {
                    expected.insert(at, step.ending);
                    return Ok(None);
                }
                self.answer(at, step.ending)
            }
        }
    }

    fn order(&self, at: usize, action: StepAction) -> Result<()> {
        let orders = self.connections[at].orders.as_ref();
        let sent = orders.is_some_and(|orders| orders.send(action).is_ok());
        if sent { Ok(()) } else { Err(Failure::Setup("the connection is closed".into())) }
    }

    fn answer(&self, at: usize, ending: ExpectedEnding) -> Result<Option<String>> {
        let answer = self.connections[at].answers.recv_timeout(LIMIT);
        let answer = answer.map_err(|e| Failure::Setup(format!("no answer: {e}")))?;
        match (answer, ending) {
            (Ok(()), ExpectedEnding::Success) => Ok(None),
            (Ok(()), ExpectedEnding::Any) => Ok(Some("OK".into())),
            (Ok(()), ExpectedEnding::Error(number)) => {
                Err(Failure::Setup(format!("should have failed with {number}")))
            }
            (Err(mysql::Error::MySqlError(e)), ExpectedEnding::Error(number)) if e.code == number => Ok(None),
            (Err(mysql::Error::MySqlError(e)), ExpectedEnding::Any) => Ok(Some(e.code.to_string())),
            // The client itself refuses, for instance an execution of what could not be prepared.
            (Err(mysql::Error::DriverError(e)), ExpectedEnding::Any) => Ok(Some(e.to_string())),
            (Err(e), _) => Err(e.into()),
        }
    }

    fn wait_until(&mut self, sql: &str) -> Result<()> {
        let came = tare_server::poll(LIMIT, || {
            let seen: mysql::Result<Option<Option<String>>> = self.control.query_first(sql);
            seen.map(|seen| (seen.flatten().as_deref() == Some("1")).then_some(())).transpose()
        });
        came.transpose()?.ok_or_else(|| Failure::Setup(format!("never came true: {sql}")))
    }
}

impl Connection {
    fn open(server: &Server, schema: &str, user: &str) -> Result<Connection> {
        let options = server.client_options().user(Some(user)).db_name(Some(schema));
        let handler = LocalInfileHandler::new(|name, stream| {
            let name = String::from_utf8_lossy(name).into_owned();
            let mut file = std::fs::File::open(local_file(&name))?;
            std::io::copy(&mut file, stream).map(|_| ())
        });
        let conn = Conn::new(options.local_infile_handler(Some(handler)))?;
        let id = u64::from(conn.connection_id());
        let (orders, work) = channel();
        let (done, answers) = channel();
        let thread = std::thread::spawn(move || serve(conn, &work, &done));
        Ok(Connection { id, orders: Some(orders), answers, thread: Some(thread) })
    }
}

impl Connection {
    fn close(&mut self) {
        // Without orders the thread ends; a panic there has already shown itself as a missing answer.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

fn local_file(name: &str) -> PathBuf {
    script::folder().join("data").join(name)
}

fn serve(mut conn: Conn, work: &Receiver<StepAction>, done: &Sender<std::result::Result<(), mysql::Error>>) {
    let mut prepared: HashMap<String, Statement> = HashMap::new();
    for action in work {
        if done.send(act(&mut conn, &mut prepared, action)).is_err() {
            return;
        }
    }
}

fn act(
    conn: &mut Conn,
    prepared: &mut HashMap<String, Statement>,
    action: StepAction,
) -> std::result::Result<(), mysql::Error> {
    match action {
        StepAction::Query(sql) => conn.query_drop(sql),
        StepAction::Prepare(name, sql) => {
            prepared.insert(name, conn.prep(sql)?);
            Ok(())
        }
        StepAction::Execute(name, parameters) => {
            let values: Vec<Value> = parameters.into_iter().map(value).collect();
            let values = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
            match prepared.get(&name) {
                Some(statement) => conn.exec_drop(statement, values),
                // A statement that could not be prepared takes no parameters.
                None => Err(mysql::DriverError::MismatchedStmtParams(0, 0).into()),
            }
        }
        StepAction::Close(name) => match prepared.remove(&name) {
            Some(statement) => conn.close(statement),
            None => Ok(()),
        },
        StepAction::Reap | StepAction::Until(_) | StepAction::Control(_) | StepAction::Disconnect => Ok(()),
    }
}

fn value(parameter: Parameter) -> Value {
    match parameter {
        Parameter::Null => Value::NULL,
        Parameter::Number(number) => Value::Int(number),
        Parameter::Text(text) => Value::Bytes(text.into_bytes()),
    }
}
