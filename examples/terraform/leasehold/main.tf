# Leasehold as a module: the plain template of a release, in a CloudFormation stack that Terraform manages. variables.tf has the
# template's parameters, outputs.tf its outputs.
terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

data "aws_region" "here" {}
data "aws_partition" "here" {}

resource "aws_cloudformation_stack" "leasehold" {
  name         = var.name
  template_url = "https://s3.${data.aws_region.here.id}.${data.aws_partition.here.dns_suffix}/${var.code_bucket}/${var.code_prefix}leasehold.json"
  capabilities = ["CAPABILITY_IAM"]
  parameters   = merge({ for name, value in merge(local.parameters, local.concurrency) : name => tostring(value) }, var.more_parameters)
  tags         = var.tags
}
