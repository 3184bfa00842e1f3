// Writes a section: the states that acquire and release, and those that verify the lease after a redrive.
import { Duration, aws_lambda as lambda, aws_stepfunctions as sfn, aws_stepfunctions_tasks as tasks } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { IfHeld, SectionProps } from './props';

/** The longest that a task may take, which counts for one without a limit of its own. */
const LONGEST = 99999999;
/** The error of a field whose expression has no value. */
const NO_VALUE = 'States.QueryEvaluationError';
const UNCHANGED = '{% $states.input %}';
const SERVICE_ERRORS = [
  'Lease.Throttled', 'Lease.Unavailable', 'Lambda.ServiceException', 'Lambda.AWSLambdaException', 'Lambda.SdkClientException',
  'Lambda.ClientExecutionTimeoutException', 'Lambda.TooManyRequestsException', 'Lambda.Unknown', 'Runtime.ExitError', 'Sandbox.Timedout',
];

/** How the comment of a section's acquire begins, by which its place is found. */
export function purpose(name: string, leasehold: string): string {
  return `Section ${name} of ${leasehold}`;
}

/** The construct that the states belong to, and what they call. */
export type Functions = Construct & Record<'acquireFunction' | 'extendFunction' | 'releaseFunction', lambda.IFunction>;

type Task = sfn.TaskStateBase | sfn.CustomState;

function isTask(state: sfn.State): state is Task {
  return state instanceof sfn.TaskStateBase || (state instanceof sfn.CustomState && (state.toStateJson() as any).Type === 'Task');
}

function reachable(state: sfn.State): sfn.State[] {
  return sfn.State.findReachableStates(state, { includeErrorHandlers: true });
}

export function writeSection(leasehold: Functions, name: string, states: sfn.IChainable, props: SectionProps): sfn.Chain {
  if (props.ifHeld === IfHeld.REPLACE) throw new Error(`section ${name}: only a guard can replace the holder`);
  // Not the chain's own, which has none behind a Choice.
  const ends = sfn.State.filterNextables(sfn.State.findReachableEndStates(states.startState));
  if (ends.length === 0) throw new Error(`section ${name}: every way through the states ends the execution, so nothing can release the lease`);
  const variable = name.toLowerCase().replace(/[^a-z0-9]+/g, '_');
  const [lease, proven] = [`${variable}_lease`, `${variable}_proven`];
  const REDRIVES = '$states.context.Execution.RedriveCount';

  const call = (id: string, more: tasks.LambdaInvokeJsonataProps): tasks.LambdaInvoke => {
    const task = tasks.LambdaInvoke.jsonata(leasehold, `${name}${id}`, {
      taskTimeout: sfn.Timeout.duration(Duration.seconds(15)),
      retryOnServiceExceptions: false,
      outputs: UNCHANGED,
      ...more,
    });
    const waits = more.integrationPattern === sfn.IntegrationPattern.WAIT_FOR_TASK_TOKEN;
    return task.addRetry({
      errors: waits ? SERVICE_ERRORS : [...SERVICE_ERRORS, 'States.Timeout'],
      interval: Duration.seconds(1),
      backoffRate: 2,
      maxDelay: Duration.seconds(8),
      maxAttempts: 6,
      jitterStrategy: sfn.JitterType.FULL,
    }) as tasks.LambdaInvoke;
  };

  const queues = props.ifHeld === undefined || props.ifHeld === IfHeld.WAIT || props.ifHeld === IfHeld.LATEST;
  if (props.pool && !queues) throw new Error(`section ${name}: only who waits in the queue takes a permit of a pool: leave ifHeld out, or set it to LATEST`);
  const wait = props.waitSeconds ?? 3600;
  const payload = {
    key: props.key,
    permits: props.permits,
    holder: '{% $states.context.Execution.Id %}',
    request_id: `{% $states.context.State.Name & '/' & $states.context.State.EnteredTime & '/' & ${REDRIVES} %}`,
    lifetime: 'execution',
    keep_seconds: props.keepSeconds,
    at_least_seconds: props.atLeastSeconds,
    pool: props.pool,
    metadata: props.metadata,
    reentrant: true,
    ...(queues ? { task_token: '{% $states.context.Task.Token %}', wait_seconds: wait } : {}),
    ...(props.ifHeld === IfHeld.LATEST ? { if_held: 'latest' } : {}),
  };
  const expression = /^\{%([^]*)%\}$/.exec(props.key)?.[1].trim() ?? JSON.stringify(props.key);
  const acquire = call('Acquire', {
    comment: `${purpose(name, leasehold.node.path)}: asks for the lease, which lasts until the execution ends.${
      queues ? ' Waits in the queue; the lease arrives through the task token. The two minutes more are for a late sweep.' : ''}`,
    lambdaFunction: leasehold.acquireFunction,
    payload: sfn.TaskInput.fromObject(payload),
    assign: {
      [lease]: queues ? `{% $merge([$states.result.lease, {'key': (${expression})}]) %}` : '{% $states.result.Payload.lease %}',
      [proven]: `{% ${REDRIVES} %}`,
    },
    ...(queues ? {
      integrationPattern: sfn.IntegrationPattern.WAIT_FOR_TASK_TOKEN,
      taskTimeout: sfn.Timeout.duration(Duration.seconds(wait + 120)),
    } : {}),
  });
  const nothing = (error: string, output: object): void => {
    acquire.addCatch(sfn.Succeed.jsonata(leasehold, `${name}Skipped`, {
      comment: 'Nothing was started, and the execution succeeds: the holder, or a later one, does the work.',
      outputs: { leasehold: output },
    }), { errors: [error], outputs: `{% $parse($parse($states.errorOutput.Cause).errorMessage) %}` });
  };
  if (props.ifHeld === IfHeld.SKIP) {
    const held = "$sift($states.input, function($value, $name) { $not($name in ['message', 'retry_at', 'wait_seconds']) })";
    nothing('Lease.Held', { outcome: 'skipped', held: `{% ${held} %}` });
  } else if (props.ifHeld === IfHeld.LATEST) {
    nothing('Lease.Superseded', { outcome: 'superseded', by: '{% $states.input.by %}' });
  }

  const members = reachable(states.startState);
  // In a loop back to it, others may have worked since the first state.
  const repeats = members.some((one) => one !== states.startState && reachable(one).includes(states.startState));
  for (const one of members) {
    const inside = one instanceof sfn.Parallel || one instanceof sfn.Map || one instanceof sfn.DistributedMap;
    if (inside && props.keepSeconds === undefined) {
      throw new Error(`section ${name}: after a redrive, the tasks in ${one.id} cannot verify that the lease still lasts: give keepSeconds`);
    }
    if (!isTask(one)) continue;
    const extend = call(`ExtendFor${one.id}`, {
      comment: 'After a redrive, which skips the acquire: verifies that the lease still lasts. Otherwise an expression has failed, and fails here too.',
      lambdaFunction: leasehold.extendFunction,
      payload: sfn.TaskInput.fromObject({ lease: `{% ${REDRIVES} != $${proven} ? $${lease} %}` }),
      assign: { [lease]: '{% $states.result.Payload.lease %}', [proven]: `{% ${REDRIVES} %}` },
    });
    if (one === states.startState && !repeats) {
      extend.addCatch(acquire, { errors: ['Lease.Lost', 'Lease.Expired'], outputs: UNCHANGED });
    }
    prove(one, extend, proven, `section ${name}: ${one.id}`, props.keepSeconds !== undefined);
    extend.next(one);
  }

  const release = call('Release', {
    comment: 'Gives the key to the next in the queue. A lease that could not be released ends with the execution.',
    lambdaFunction: leasehold.releaseFunction,
    payload: sfn.TaskInput.fromObject({ lease: `{% $${lease} %}` }),
  });
  const unreleased = sfn.Pass.jsonata(leasehold, `${name}Unreleased`, { comment: 'The work is done all the same.' });
  release.addCatch(unreleased, { errors: ['States.ALL'], outputs: UNCHANGED });
  acquire.next(states);
  for (const end of ends) end.next(release);
  return sfn.Chain.custom(acquire, [release, unreleased], release);
}

/**
 * After a redrive, a task's timeout has no value, and the clause before all others leads to `extend`. CDK has no way to say
 * this of a task that exists, so the task's JSON is changed.
 */
function prove(task: Task, extend: tasks.LambdaInvoke, proven: string, where: string, kept: boolean): void {
  task.addCatch(extend, { errors: [NO_VALUE] });
  const render = task.toStateJson.bind(task);
  task.toStateJson = (language?: sfn.QueryLanguage): object => {
    const json = render(language) as any;
    if (json.QueryLanguage !== 'JSONata' && language !== sfn.QueryLanguage.JSONATA) throw new Error(`${where}: a section is for tasks in JSONata`);
    const theirs: any[] = json.Catch.filter((clause: any) => clause.Next !== extend.stateId);
    const limit = json.TimeoutSeconds ?? LONGEST;
    const caught = theirs.some((clause) => clause.ErrorEquals.includes(NO_VALUE));
    if (typeof limit !== 'number' || caught) {
      if (kept) return { ...json, Catch: theirs.length > 0 ? theirs : undefined };
      throw new Error(`${where} cannot verify that the lease still lasts after a redrive, because of its own ${
        caught ? `Catch of ${NO_VALUE}` : 'TimeoutSeconds'}: give keepSeconds`);
    }
    const ours = { ErrorEquals: [NO_VALUE], Output: UNCHANGED, Next: extend.stateId };
    return { ...json, TimeoutSeconds: `{% $states.context.Execution.RedriveCount = $${proven} ? ${limit} %}`, Catch: [ours, ...theirs] };
  };
}
