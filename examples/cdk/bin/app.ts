// Each order is settled by one execution at a time, the nightly report is skipped while one is running, and an order takes its goods
// from the stock by two steps of which no other order sees the middle.
import {
  App, CfnOutput, Duration, Stack, aws_dynamodb as dynamodb, aws_lambda as lambda, aws_stepfunctions as sfn, aws_stepfunctions_tasks as tasks,
} from 'aws-cdk-lib';
import { IfHeld, Leasehold } from 'leasehold-cdk';

const app = new App();
const stack = new Stack(app, 'Orders');
const leasehold = new Leasehold(stack, 'Leasehold', {
  architecture: app.node.tryGetContext('architecture') === 'x86_64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64,
  parameters: { LogLevel: 'WARN' },
});

// The state machines that run under a lease. They contain nothing about leases.
const settle = new sfn.StateMachine(stack, 'Settle', {
  queryLanguage: sfn.QueryLanguage.JSONATA,
  definitionBody: sfn.DefinitionBody.fromChainable(
    sfn.Wait.jsonata(stack, 'Settle the order', { time: sfn.WaitTime.duration(Duration.seconds(5)) }),
  ),
});
const report = new sfn.StateMachine(stack, 'Report', {
  queryLanguage: sfn.QueryLanguage.JSONATA,
  definitionBody: sfn.DefinitionBody.fromChainable(
    sfn.Wait.jsonata(stack, 'Write the report', { time: sfn.WaitTime.duration(Duration.minutes(5)) }),
  ),
});

const onOrder = new sfn.StateMachine(stack, 'OnOrder', {
  definitionBody: sfn.DefinitionBody.fromChainable(
    leasehold.guard(settle, { key: "{% 'orders/' & $string($states.input.order) %}", ifHeld: IfHeld.WAIT, waitSeconds: 600 }),
  ),
});
const nightly = new sfn.StateMachine(stack, 'Nightly', {
  definitionBody: sfn.DefinitionBody.fromChainable(leasehold.guard(report, { key: 'nightly-report', ifHeld: IfHeld.SKIP })),
});

// A machine with its own section: the state after it runs when the next order may begin already.
const stock = new dynamodb.TableV2(stack, 'Stock', { partitionKey: { name: 'item', type: dynamodb.AttributeType.STRING } });
const item = { item: tasks.DynamoAttributeValue.fromString('{% $states.input.item %}') };
const look = tasks.DynamoGetItem.jsonata(stack, 'Look', {
  table: stock, key: item, taskTimeout: sfn.Timeout.duration(Duration.seconds(30)),
  outputs: { item: '{% $states.input.item %}', left: '{% $number($states.result.Item.left.N) - 1 %}' },
});
const take = tasks.DynamoPutItem.jsonata(stack, 'Take', {
  table: stock, taskTimeout: sfn.Timeout.duration(Duration.seconds(30)),
  item: { ...item, left: tasks.DynamoAttributeValue.numberFromString('{% $string($states.input.left) %}') },
});
const pack = sfn.Wait.jsonata(stack, 'Pack', { time: sfn.WaitTime.duration(Duration.minutes(1)) });
const ship = new sfn.StateMachine(stack, 'Ship', {
  stateMachineName: leasehold.leasingName('ship'),
  queryLanguage: sfn.QueryLanguage.JSONATA,
  definitionBody: sfn.DefinitionBody.fromChainable(
    leasehold.section('Stock', look.next(take), { key: "{% 'stock/' & $states.input.item %}" }).next(pack),
  ),
});

new CfnOutput(stack, 'OnOrderArn', { value: onOrder.stateMachineArn });
new CfnOutput(stack, 'NightlyArn', { value: nightly.stateMachineArn });
new CfnOutput(stack, 'ShipArn', { value: ship.stateMachineArn });
new CfnOutput(stack, 'LeaseTable', { value: leasehold.table.tableName });
new CfnOutput(stack, 'AcquireFunctionArn', { value: leasehold.acquireFunction.functionArn });
