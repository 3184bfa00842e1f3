// Each order is settled by one execution at a time, and the nightly report is skipped while one is running.
import { App, CfnOutput, Duration, Stack, aws_stepfunctions as sfn } from 'aws-cdk-lib';
import { Leasehold } from '../lib/leasehold';

const app = new App();
const stack = new Stack(app, 'Orders');
const context = (name: string): string | undefined => app.node.tryGetContext(name);

const leasehold = new Leasehold(stack, 'Leasehold', {
  codeBucket: context('codeBucket') ?? 'name-of-your-bucket',
  template: context('template'),
  parameters: { Architecture: 'arm64', LogLevel: 'WARN' },
});

// The guarded state machine. It contains nothing about leases.
const settle = new sfn.StateMachine(stack, 'Settle', {
  definitionBody: sfn.DefinitionBody.fromChainable(
    sfn.Wait.jsonata(stack, 'Settle the order', { time: sfn.WaitTime.duration(Duration.seconds(5)) }),
  ),
  queryLanguage: sfn.QueryLanguage.JSONATA,
});
const report = new sfn.StateMachine(stack, 'Report', {
  definitionBody: sfn.DefinitionBody.fromChainable(
    sfn.Wait.jsonata(stack, 'Write the report', { time: sfn.WaitTime.duration(Duration.minutes(5)) }),
  ),
  queryLanguage: sfn.QueryLanguage.JSONATA,
});

const onOrder = new sfn.StateMachine(stack, 'OnOrder', {
  definitionBody: sfn.DefinitionBody.fromChainable(
    leasehold.guard(settle, { key: "{% 'orders/' & $string($states.input.order) %}", ifHeld: 'wait', waitSeconds: 600 }),
  ),
});
const nightly = new sfn.StateMachine(stack, 'Nightly', {
  definitionBody: sfn.DefinitionBody.fromChainable(leasehold.guard(report, { key: 'nightly-report', ifHeld: 'skip' })),
});

new CfnOutput(stack, 'OnOrderArn', { value: onOrder.stateMachineArn });
new CfnOutput(stack, 'NightlyArn', { value: nightly.stateMachineArn });
new CfnOutput(stack, 'LeaseTable', { value: leasehold.table.tableName });
