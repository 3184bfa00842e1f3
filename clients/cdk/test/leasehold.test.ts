// What the construct refuses at synth, and what it writes. tools/packages/test_cdk.py runs this in a folder with the packed package.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { App, Stack, aws_lambda as lambda, aws_stepfunctions as sfn, aws_stepfunctions_tasks as tasks } from 'aws-cdk-lib';
import { IfHeld, Leasehold, type LeaseholdProps } from 'leasehold-cdk';

// That of the packed package, which may have been built for one instruction set only.
const architecture = process.env.ARCHITECTURE === 'x86_64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64;

function world(props?: LeaseholdProps) {
  const app = new App();
  const stack = new Stack(app, 'Orders');
  const leasehold = new Leasehold(stack, 'Leasehold', { architecture, ...props });
  const task = (name: string, more = {}) =>
    tasks.LambdaInvoke.jsonata(stack, name, { lambdaFunction: lambda.Function.fromFunctionName(stack, `${name}Function`, 'step'), ...more });
  const machine = (states: sfn.IChainable, more: Partial<sfn.StateMachineProps> = {}) => new sfn.StateMachine(stack, 'Machine', {
    stateMachineName: leasehold.leasingName('m'),
    queryLanguage: sfn.QueryLanguage.JSONATA,
    definitionBody: sfn.DefinitionBody.fromChainable(states),
    ...more,
  });
  // The definition with a text for each reference.
  const states = () => {
    const { Resources } = app.synth().getStackByName('Orders').template;
    const found: any = Object.values(Resources).find((one: any) => one.Type === 'AWS::StepFunctions::StateMachine');
    return JSON.parse(found.Properties.DefinitionString['Fn::Join'][1].map((part: any) => (typeof part === 'string' ? part : 'x')).join('')).States;
  };
  return { app, stack, leasehold, task, machine, states };
}

test('a parameter that the template has not is refused', () => {
  assert.throws(() => world({ parameters: { LogLvl: 'WARN' } }), /LogLvl/);
  assert.throws(() => world({ parameters: { Architecture: 'arm64' } }), /architecture/);
});

test('an instruction set that the package has not is refused with those that it has', () => {
  const other = lambda.Architecture.custom('riscv');
  assert.throws(() => world({ architecture: other }), new RegExp(`has functions for .*${architecture.name}.* not for riscv`));
});

test('a section leaves the other clauses and the limit of a task, behind its proof', () => {
  const { leasehold, stack, task, machine, states } = world();
  const charge = task('Charge', { retryOnServiceExceptions: false }).addCatch(sfn.Succeed.jsonata(stack, 'Told'), { errors: ['Order.Told'] });
  machine(leasehold.section('Order', charge.next(task('Book')), { key: 'orders', waitSeconds: 60 }));
  const { OrderAcquire, Charge, Book, OrderExtendForCharge, OrderExtendForBook, OrderRelease } = states();
  const clauses = Charge.Catch.map((one: any) => [one.ErrorEquals[0], one.Next]);
  assert.deepEqual(clauses, [['States.QueryEvaluationError', 'OrderExtendForCharge'], ['Order.Told', 'Told']]);
  assert.equal(Charge.Catch[0].Output, '{% $states.input %}');
  assert.equal(Charge.TimeoutSeconds, '{% $states.context.Execution.RedriveCount = $order_proven ? 99999999 %}');
  assert.deepEqual([OrderAcquire.TimeoutSeconds, OrderAcquire.Next, Book.Next, OrderRelease.End], [180, 'Charge', 'OrderRelease', true]);
  // A lost lease is asked for again only before the first task.
  assert.deepEqual(OrderExtendForCharge.Catch.map((one: any) => one.Next), ['OrderAcquire']);
  assert.equal(OrderExtendForBook.Catch, undefined);
});

test('a section that would lose its first task in a loop does not ask again', () => {
  const { leasehold, stack, task, machine, states } = world();
  const ask = task('Ask');
  const choice = sfn.Choice.jsonata(stack, 'Ready?').when(sfn.Condition.jsonata('{% true %}'), ask).otherwise(sfn.Pass.jsonata(stack, 'Done'));
  machine(leasehold.section('Order', ask.next(choice), { key: 'orders' }));
  assert.equal(states().OrderExtendForAsk.Catch, undefined);
});

test('a machine without a name from leasingName is refused at synth', () => {
  const { app, leasehold, task, machine } = world();
  machine(leasehold.section('Order', task('Charge'), { key: 'orders' }), { stateMachineName: 'mine' });
  assert.throws(() => app.synth(), /Section Order of Orders\/Leasehold is in Orders\/Machine\/Resource, which needs a name/);
});

test('a name of your own goes with a LeasingStateMachine of your own', () => {
  const { app, leasehold, task, machine } = world({ parameters: { LeasingStateMachine: 'arn:aws:states:us-east-1:123456789012:stateMachine:mine' } });
  machine(leasehold.section('Order', task('Charge'), { key: 'orders' }), { stateMachineName: 'mine' });
  app.synth();
});

test('a section is for the top level of a Standard machine', () => {
  const inside = world();
  const section = inside.leasehold.section('Order', inside.task('Charge'), { key: 'orders' });
  inside.machine(sfn.Map.jsonata(inside.stack, 'Each').itemProcessor(section));
  assert.throws(() => inside.app.synth(), /in a Map or Parallel of/);
  const express = world();
  express.machine(express.leasehold.section('Order', express.task('Charge'), { key: 'orders' }), { stateMachineType: sfn.StateMachineType.EXPRESS });
  assert.throws(() => express.app.synth(), /in an Express state machine/);
});

test('what cannot be a section is refused', () => {
  const { leasehold, stack, task, machine } = world();
  assert.throws(() => leasehold.section('A', task('Charge'), { key: 'orders', ifHeld: IfHeld.REPLACE }), /only a guard can replace/);
  assert.throws(() => leasehold.section('B', sfn.Succeed.jsonata(stack, 'End'), { key: 'orders' }), /ends the execution/);
  assert.throws(() => leasehold.section('C', sfn.Parallel.jsonata(stack, 'Both').branch(task('Left')), { key: 'orders' }), /give keepSeconds/);
  const wait = new tasks.LambdaInvoke(stack, 'Old', { lambdaFunction: leasehold.inspectFunction });
  const section = leasehold.section('D', wait, { key: 'orders' });
  assert.throws(() => machine(section, { queryLanguage: sfn.QueryLanguage.JSON_PATH }), /for tasks in JSONata/);
});
