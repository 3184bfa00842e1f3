// One machine for each shape of a section. tools/packages/test_cdk.py synthesises them and lets `leasehold check` read them.
import { App, Duration, Stack, aws_lambda as lambda, aws_stepfunctions as sfn, aws_stepfunctions_tasks as tasks } from 'aws-cdk-lib';
import { IfHeld, Leasehold, type SectionProps } from 'leasehold-cdk';

// That of the packed package, which may have been built for one instruction set only.
const architecture = process.env.ARCHITECTURE === 'x86_64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64;
const stack = new Stack(new App(), 'Orders');
const leasehold = new Leasehold(stack, 'Leasehold', { architecture });
const step = lambda.Function.fromFunctionName(stack, 'Step', 'step');
const KEY = "{% 'orders/' & $states.input.order %}";
let made = 0;

function task(name: string, props: Partial<tasks.LambdaInvokeJsonataProps> = {}): tasks.LambdaInvoke {
  return tasks.LambdaInvoke.jsonata(stack, `${name}${made}`, { lambdaFunction: step, outputs: '{% $states.input %}', ...props });
}
function pass(name: string): sfn.Pass {
  return sfn.Pass.jsonata(stack, `${name}${made}`);
}
function machine(states: sfn.IChainable, props: Partial<SectionProps> = {}, after?: sfn.IChainable): void {
  const section = leasehold.section(`Section${made}`, states, { key: KEY, ...props });
  new sfn.StateMachine(stack, `Machine${made}`, {
    stateMachineName: leasehold.leasingName(`machine${made++}`),
    queryLanguage: sfn.QueryLanguage.JSONATA,
    definitionBody: sfn.DefinitionBody.fromChainable(after ? section.next(after) : section),
  });
}

machine(task('Charge'));
machine(task('Charge', { taskTimeout: sfn.Timeout.duration(Duration.seconds(60)) }).next(task('Book')), {}, task('Mail'));
machine(task('Charge'), { ifHeld: IfHeld.LATEST, waitSeconds: 60 });
machine(task('Charge'), { ifHeld: IfHeld.FAIL, atLeastSeconds: 5 }, pass('After'));
machine(task('Charge'), { ifHeld: IfHeld.SKIP, metadata: { team: 'billing' } }, task('Mail'));
machine(task('Charge'), { permits: 3, keepSeconds: 3600, key: 'partner' });
machine(task('Charge'), { pool: { name: 'imports', permits: 10 } });
machine(new sfn.CustomState(stack, 'Custom', { stateJson: { Type: 'Task', Resource: 'arn:aws:states:::sqs:sendMessage', Arguments: {} } }));
// Side by side.
machine(sfn.Parallel.jsonata(stack, 'Both', { outputs: '{% $states.input %}' }).branch(task('Left')).branch(task('Right')), { keepSeconds: 600 });
// A Choice, and a handler of the user's that ends the execution.
machine(pass('Begin').next(sfn.Choice.jsonata(stack, 'Big?')
  .when(sfn.Condition.jsonata('{% $states.input.big %}'), task('Big').addCatch(sfn.Fail.jsonata(stack, 'Sorry'), { errors: ['States.ALL'] }))
  .otherwise(task('Small'))));
// A loop back to the first task: after a redrive a lost lease is lost.
const ask = task('Ask');
machine(ask.next(sfn.Choice.jsonata(stack, 'Ready?')
  .when(sfn.Condition.jsonata('{% $states.input.left > 0 %}'), pass('More').next(ask))
  .otherwise(task('Done'))));
