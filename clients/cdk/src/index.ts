export * from './leasehold';
export * from './props';
