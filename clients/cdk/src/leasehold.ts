// Leasehold as a construct. It nests the plain template of a release as a stack of its own, so that its resources cannot clash with
// yours, and exposes the parts that your stack needs. Code, definitions and templates are assets of this package.
import * as fs from 'node:fs';
import * as path from 'node:path';
import {
  ArnFormat, Aws, Fn, Lazy, NestedStack, Stack, Token,
  aws_dynamodb as dynamodb, aws_lambda as lambda, aws_s3_assets as assets, aws_stepfunctions as sfn, aws_stepfunctions_tasks as tasks,
} from 'aws-cdk-lib';
import { CfnInclude } from 'aws-cdk-lib/cloudformation-include';
import { Construct } from 'constructs';
import { GuardProps, SectionProps } from './props';
import { purpose, writeSection } from './section';

const ASSETS = path.join(__dirname, '..', 'assets');
/** The templates that the template nests, by their logical ids. */
const NESTED = { MonitoringStack: 'monitoring.json', SamplesStack: 'samples.json' };

export interface LeaseholdProps {
  /**
   * The instruction set of Leasehold's functions.
   *
   * @default lambda.Architecture.ARM_64
   */
  readonly architecture?: lambda.Architecture;
  /**
   * Parameters of the template by their names, such as `{ LogLevel: 'WARN' }`. A list is one text with commas.
   *
   * @default - the template's
   */
  readonly parameters?: { [name: string]: string };
}

/** A table of leases, the functions that grant them, and the state machine that starts others under them. */
export class Leasehold extends Construct {
  public readonly table: dynamodb.ITable;
  public readonly acquireFunction: lambda.IFunction;
  public readonly extendFunction: lambda.IFunction;
  public readonly releaseFunction: lambda.IFunction;
  /** Starts state machines of yours under leases: those in the parameter `StartedStateMachine`. */
  public readonly startFunction: lambda.IFunction;
  public readonly inspectFunction: lambda.IFunction;
  public readonly operateFunction: lambda.IFunction;
  /** Starts a state machine of yours under a lease, and ends as it ends; `guard` starts it. */
  public readonly withLeaseStateMachine: sfn.IStateMachine;

  private readonly started: string[] = [];
  private readonly sections: string[] = [];
  private readonly prefix: string;

  public constructor(scope: Construct, id: string, props: LeaseholdProps = {}) {
    super(scope, id);
    const given: { [name: string]: string } = { ...props.parameters };
    if (given.Architecture !== undefined) throw new Error('Leasehold: the property `architecture` says what the parameter Architecture is');
    const architecture = (props.architecture ?? lambda.Architecture.ARM_64).name;
    const packed = architectures();
    if (!packed.includes(architecture)) {
      throw new Error(`Leasehold: this package has functions for ${packed.join(' and ')} only, and not for ${architecture}: set the property \`architecture\``);
    }
    given.Architecture = architecture;
    // A nested stack's own name is too long for the names of state machines.
    given.NamePrefix ??= `${Stack.of(this).stackName}-${id}`;
    this.prefix = `${given.NamePrefix}_leasing_`;
    // One pattern for all machines with sections. Their ARNs would make a circle: a machine contains the functions' ARNs.
    const ours = this.machineArn(`${this.prefix}*`);
    const theirs = given.LeasingStateMachine;
    given.LeasingStateMachine = theirs === '*' ? theirs : theirs ? `${ours},${theirs}` : ours;
    if (given.StartedStateMachine) this.started.push(given.StartedStateMachine);
    // The children of later calls of `guard` are not known yet. Without any, the template's default counts.
    given.StartedStateMachine = Lazy.string({ produce: () => (this.started.length > 0 ? Fn.join(',', this.started) : undefined) });

    const nested = new NestedStack(this, 'Stack', { parameters: given, description: 'Leasehold' });
    const template = new CfnInclude(nested, 'Template', {
      templateFile: path.join(ASSETS, 'template.json'),
      loadNestedStacks: Object.fromEntries(Object.entries(NESTED).map(([name, file]) => [name, { templateFile: path.join(ASSETS, file) }])),
    });
    // An unknown parameter name is an error here already, not only at the deployment.
    for (const name of Object.keys(given)) template.getParameter(name);
    this.fill(nested, template, 'template.json', architecture);
    for (const [name, file] of Object.entries(NESTED)) {
      const { stack, includedTemplate } = template.getNestedStack(name);
      this.fill(stack, includedTemplate, file, architecture);
    }

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
    this.node.addValidation({ validate: () => this.misplaced(theirs !== undefined) });
  }

  /**
   * A state that runs `child` inside a lease, and has the child's output. It is in JSONata, and fits machines of both languages.
   * The role of the machine that contains it gets the permissions that it needs, and Leasehold the permission to start the child.
   */
  public guard(child: sfn.IStateMachine, props: GuardProps): tasks.StepFunctionsStartExecution {
    if (!this.started.includes(child.stateMachineArn)) this.started.push(child.stateMachineArn);
    const input = {
      key: props.key,
      if_held: props.ifHeld,
      wait_seconds: props.waitSeconds,
      permits: props.permits,
      pool: props.pool,
      at_least_seconds: props.atLeastSeconds,
      keep_seconds: props.keepSeconds,
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

  /**
   * The states of a chain under a lease: acquire, the chain, release. The lease lasts as long as the execution, and no longer:
   * if a state of the chain fails, the execution fails, and Leasehold ends the lease.
   *
   * It belongs at the top level of a Standard state machine in JSONata whose name is from `leasingName`.
   *
   * @param name the beginning of the names of the added states; in small letters, that of the variable with the lease: `<name>_lease`
   * @param states what to protect: a chain, and all states that it leads to. Every open end leads to the release
   */
  public section(name: string, states: sfn.IChainable, props: SectionProps): sfn.Chain {
    this.sections.push(purpose(name, this.node.path));
    return writeSection(this, name, states, props);
  }

  /** A name for a state machine with a section: acquire grants an execution lease only to machines of such names. */
  public leasingName(name: string): string {
    return `${this.prefix}${name}`;
  }

  private machineArn(name: string): string {
    return Stack.of(this).formatArn({ service: 'states', resource: 'stateMachine', resourceName: name, arnFormat: ArnFormat.COLON_RESOURCE_NAME });
  }

  /** Gives the resources of a template their files, where the template has the files' names only. */
  private fill(scope: Construct, template: CfnInclude, file: string, architecture: string): void {
    const { Resources, Mappings = {} } = JSON.parse(fs.readFileSync(path.join(ASSETS, file), 'utf-8'));
    // CDK comments on a mapping in which nothing of the app looks, at every synth.
    for (const name of Object.keys(Mappings)) template.getMapping(name).findInMap(Aws.REGION, 'none');
    for (const [name, { Properties: properties }] of Object.entries<any>(Resources)) {
      if (properties?.Code) {
        const zip = new assets.Asset(scope, `${name}Code`, { path: path.join(ASSETS, `${properties.Code.S3Key}-${architecture}.zip`) });
        (template.getResource(name) as lambda.CfnFunction).code = { s3Bucket: zip.s3BucketName, s3Key: zip.s3ObjectKey };
      } else if (properties?.DefinitionS3Location) {
        const definition = new assets.Asset(scope, `${name}Definition`, { path: path.join(ASSETS, properties.DefinitionS3Location.Key) });
        const machine = template.getResource(name) as sfn.CfnStateMachine;
        machine.definitionS3Location = { bucket: definition.s3BucketName, key: definition.s3ObjectKey };
      }
    }
  }

  /** What is wrong with the machines that contain sections, for CDK to report. */
  private misplaced(anyName: boolean): string[] {
    const found: string[] = [];
    const machines = this.node.root.node.findAll().filter((one): one is sfn.CfnStateMachine => one instanceof sfn.CfnStateMachine);
    for (const machine of this.sections.length > 0 ? machines : []) {
      const text = definitionOf(machine);
      for (const section of this.sections.filter((one) => text.includes(`${one}:`))) {
        const top = Object.values<any>(JSON.parse(text).States).some((state) => state.Comment?.startsWith(`${section}:`));
        if (!top) found.push(`${section} is in a Map or Parallel of ${machine.node.path}: put it at the top level, or guard a machine of its own`);
        if (machine.stateMachineType === 'EXPRESS') found.push(`${section} is in an Express state machine, ${machine.node.path}`);
        const name = machine.stateMachineName;
        const named = anyName || Token.isUnresolved(name) || name?.startsWith(this.prefix);
        if (!named) found.push(`${section} is in ${machine.node.path}, which needs a name: stateMachineName: leasehold.leasingName('...')`);
      }
    }
    return found;
  }
}

/** The instruction sets that this package was built for. */
function architectures(): string[] {
  const files = fs.readdirSync(path.join(ASSETS, 'functions')).filter((file) => file.endsWith('.zip'));
  const all = [lambda.Architecture.ARM_64.name, lambda.Architecture.X86_64.name];
  return all.filter((one) => files.some((file) => file.endsWith(`-${one}.zip`)));
}

/** A definition with a placeholder for each reference in it. */
function definitionOf(machine: sfn.CfnStateMachine): string {
  const definition = Stack.of(machine).resolve(machine.definitionString) ?? '';
  if (typeof definition === 'string') return definition;
  const [separator, parts] = definition['Fn::Join'] ?? ['', []];
  return parts.map((part: any) => (typeof part === 'string' ? part : 'reference')).join(separator);
}
