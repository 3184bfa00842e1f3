// Leasehold as a construct in one file: copy it into your app. It nests the plain template of a release as a stack of its own,
// so that its resources cannot clash with yours, and exposes the parts that your stack needs.
import * as path from 'node:path';
import {
  Fn, Lazy, NestedStack, Stack,
  aws_dynamodb as dynamodb, aws_lambda as lambda, aws_stepfunctions as sfn, aws_stepfunctions_tasks as tasks,
} from 'aws-cdk-lib';
import { CfnInclude } from 'aws-cdk-lib/cloudformation-include';
import { Construct } from 'constructs';

export interface LeaseholdProps {
  /** The bucket with the files of a release, in the stack's Region. */
  readonly codeBucket: string;
  /** Prefix of the files' names, up to a slash. Default: the template's, `leasehold-<version>/`. */
  readonly codePrefix?: string;
  /** Path of `leasehold.json` of the same release. Default: `leasehold.json` in the working directory. */
  readonly template?: string;
  /** Parameters of the template by their names, such as `{ ClockMarginMs: '5000' }`. A list is one text with commas. */
  readonly parameters?: Record<string, string>;
}

export interface GuardProps {
  /** The key of the lease: a text, or a JSONata expression such as `{% 'orders/' & $states.input.order %}`. */
  readonly key?: string;
  /** Several keys instead of one. They are leased together or not at all. */
  readonly keys?: string[];
  /**
   * If the key is held: wait for it; `latest`: wait, and those who wait already succeed without their child; `replace`: the same,
   * and stop the holder; fail with `Lease.Held`; or skip the child and succeed. Default: wait.
   */
  readonly ifHeld?: 'wait' | 'latest' | 'replace' | 'fail' | 'skip';
  /** How long to wait in the queue, in seconds. */
  readonly waitSeconds?: number;
  /** How many executions may run at once. Default: one. */
  readonly permits?: number;
  /** How long the key stays closed after each grant, in seconds, also if the child ends before. Default: 0. */
  readonly atLeastSeconds?: number;
  /** Whether to add the key and its fencing token to the child's input, under `leasehold`. Default: no. */
  readonly passLease?: boolean;
  /** The child's input: a value, or a JSONata expression. Default: the state's own input. */
  readonly input?: unknown;
  /** The name of the state. Default: `Guard` and the child's id. */
  readonly stateName?: string;
}

export class Leasehold extends Construct {
  readonly table: dynamodb.ITable;
  readonly acquireFunction: lambda.IFunction;
  readonly extendFunction: lambda.IFunction;
  readonly releaseFunction: lambda.IFunction;
  /** Starts state machines of yours through keys: those in the parameter `StartedStateMachine`. */
  readonly startFunction: lambda.IFunction;
  readonly inspectFunction: lambda.IFunction;
  readonly operateFunction: lambda.IFunction;
  /** Runs a state machine of yours inside a lease; `guard` starts it. */
  readonly withLeaseStateMachine: sfn.IStateMachine;

  private readonly wrapped: string[] = [];

  constructor(scope: Construct, id: string, props: LeaseholdProps) {
    super(scope, id);
    const given = { ...props.parameters };
    if (given.WrappedStateMachine) this.wrapped.push(given.WrappedStateMachine);
    // The children of later calls of `guard` are not known yet. Without any, the template's default counts.
    given.WrappedStateMachine = Lazy.string({ produce: () => (this.wrapped.length > 0 ? Fn.join(',', this.wrapped) : undefined) });
    // A nested stack's own name is too long for the names of state machines.
    given.NamePrefix ??= `${Stack.of(this).stackName}-${id}`;
    given.CodeBucket = props.codeBucket;
    if (props.codePrefix !== undefined) given.CodePrefix = props.codePrefix;

    const nested = new NestedStack(this, 'Stack', { parameters: given, description: 'Leasehold' });
    const template = new CfnInclude(nested, 'Template', {
      templateFile: props.template ?? path.resolve('leasehold.json'),
    });
    // An unknown parameter name is an error here already, not only at the deployment.
    for (const name of Object.keys(given)) template.getParameter(name);

    const output = (name: string): string => {
      template.getOutput(name);
      return nested.nestedStackResource!.getAtt(`Outputs.${name}`).toString();
    };
    const toFunction = (name: string): lambda.IFunction =>
      lambda.Function.fromFunctionAttributes(this, name, { functionArn: output(`${name}Arn`), sameEnvironment: true });
    this.table = dynamodb.Table.fromTableArn(this, 'Table', output('LeaseTableArn'));
    this.acquireFunction = toFunction('AcquireFunction');
    this.extendFunction = toFunction('ExtendFunction');
    this.releaseFunction = toFunction('ReleaseFunction');
    this.startFunction = toFunction('StartFunction');
    this.inspectFunction = toFunction('InspectFunction');
    this.operateFunction = toFunction('OperateFunction');
    this.withLeaseStateMachine = sfn.StateMachine.fromStateMachineArn(this, 'WithLease', output('WithLeaseStateMachineArn'));
  }

  /**
   * A state that runs `child` inside a lease, and has the child's output. It is in JSONata, and fits machines of both languages.
   * The role of the machine that contains it gets the permissions that it needs, and Leasehold the permission to run the child.
   */
  guard(child: sfn.IStateMachine, props: GuardProps): tasks.StepFunctionsStartExecution {
    if ((props.key === undefined) === (props.keys === undefined)) throw new Error('guard: give either key or keys');
    if (!this.wrapped.includes(child.stateMachineArn)) this.wrapped.push(child.stateMachineArn);
    const input = {
      key: props.key,
      keys: props.keys,
      if_held: props.ifHeld,
      wait_seconds: props.waitSeconds,
      permits: props.permits,
      at_least_seconds: props.atLeastSeconds,
      pass_lease: props.passLease,
      state_machine_arn: child.stateMachineArn,
      input: props.input ?? '{% $states.input %}',
    };
    const present = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
    return tasks.StepFunctionsStartExecution.jsonata(this, props.stateName ?? `Guard${child.node.id}`, {
      stateMachine: this.withLeaseStateMachine,
      integrationPattern: sfn.IntegrationPattern.RUN_JOB,
      associateWithParent: false,
      input: sfn.TaskInput.fromObject(present),
      outputs: '{% $states.result.Output %}',
    });
  }
}
