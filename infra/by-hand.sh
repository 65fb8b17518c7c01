#!/usr/bin/env bash
# Creates with gcloud what infra/*.tf creates with Terraform, except key, budget, alerts and the CI account:
#
#   infra/by-hand.sh PROJECT [REGION] [MEMBER] [bigquery] [dataflow]
#
# You can repeat it. REGION is us-central1 by default. MEMBER, such as user:you@example.com, may then run pipelines
# without being an owner ("" for none). `bigquery` and `dataflow` let runs use these services.
set -euo pipefail
project=${1:?"usage: infra/by-hand.sh PROJECT [REGION] [MEMBER] [bigquery] [dataflow]"} region=${2:-us-central1} member=${3:-}
bucket=gs://$project-pipelines
runner=pipelines-runner@$project.iam.gserviceaccount.com   # runs use this account
builder=pipelines-builder@$project.iam.gserviceaccount.com # image builds use this account

create() {
  local message
  message=$(gcloud "$@" 2>&1) || case $message in *already*) ;; *) echo "$message" >&2 && exit 1 ;; esac
}
on_project() { gcloud projects add-iam-policy-binding "$project" --member "$1" --role "$2" --condition=None >/dev/null; }
on_bucket() { gcloud storage buckets add-iam-policy-binding "$bucket" --member "$1" --role "$2" >/dev/null; }
on_repository() {
  gcloud artifacts repositories add-iam-policy-binding "$3" --project "$project" --location "$region" \
    --member "$1" --role "$2" >/dev/null
}
acting_as() {
  gcloud iam service-accounts add-iam-policy-binding "$2" --project "$project" \
    --member "$1" --role roles/iam.serviceAccountUser >/dev/null
}

gcloud services enable aiplatform.googleapis.com artifactregistry.googleapis.com cloudbilling.googleapis.com \
  cloudbuild.googleapis.com cloudquotas.googleapis.com cloudresourcemanager.googleapis.com compute.googleapis.com \
  iam.googleapis.com logging.googleapis.com serviceusage.googleapis.com storage.googleapis.com --project "$project"
create storage buckets create "$bucket" --project "$project" --location "$region" \
  --uniform-bucket-level-access --public-access-prevention
for repository in "images docker" "templates kfp"; do
  create artifacts repositories create "pipelines-${repository% *}" --project "$project" --location "$region" \
    --repository-format "${repository#* }"
done
create iam service-accounts create pipelines-runner --project "$project"
create iam service-accounts create pipelines-builder --project "$project"

# A run uses Vertex AI, writes and reads logs, reads its image and template, uses one bucket, and starts its jobs.
for role in roles/aiplatform.user roles/logging.logWriter roles/logging.viewer; do
  on_project "serviceAccount:$runner" $role
done
on_bucket "serviceAccount:$runner" roles/storage.objectUser
on_bucket "serviceAccount:$runner" roles/storage.bucketViewer
on_repository "serviceAccount:$runner" roles/artifactregistry.reader pipelines-images
on_repository "serviceAccount:$runner" roles/artifactregistry.reader pipelines-templates
acting_as "serviceAccount:$runner" "$runner"
for service in "${@:4}"; do
  case $service in
    bigquery)
      gcloud services enable bigquery.googleapis.com bigquerystorage.googleapis.com --project "$project"
      on_project "serviceAccount:$runner" roles/bigquery.user
      ;;
    dataflow)
      gcloud services enable dataflow.googleapis.com --project "$project"
      on_project "serviceAccount:$runner" roles/dataflow.developer
      on_project "serviceAccount:$runner" roles/dataflow.worker
      ;;
    *) echo "error: '$service' is not bigquery or dataflow" >&2 && exit 2 ;;
  esac
done

# A build writes logs and pushes the image.
on_project "serviceAccount:$builder" roles/logging.logWriter
on_bucket "serviceAccount:$builder" roles/storage.bucketViewer
on_repository "serviceAccount:$builder" roles/artifactregistry.writer pipelines-images

# The member starts runs and builds, and `vgp preflight` reads what it checks.
if [ -n "$member" ]; then
  create iam roles create pipelines_preflight --project "$project" --title "pipelines: preflight" --permissions \
artifactregistry.repositories.get,artifactregistry.repositories.getIamPolicy,bigquery.datasets.get,\
bigquery.tables.get,cloudkms.cryptoKeys.get,\
cloudkms.cryptoKeys.getIamPolicy,compute.acceleratorTypes.list,compute.machineTypes.list,\
compute.networkAttachments.get,compute.networks.get,\
iam.serviceAccounts.get,iam.serviceAccounts.getIamPolicy,resourcemanager.projects.get,\
resourcemanager.projects.getIamPolicy,secretmanager.secrets.getIamPolicy,serviceusage.services.get,\
serviceusage.services.list,serviceusage.services.use,storage.buckets.get,storage.buckets.getIamPolicy
  create iam roles create pipelines_untag --project "$project" --title "pipelines: untag" \
    --permissions artifactregistry.tags.delete # vgp templates untag
  for role in roles/aiplatform.user roles/cloudbuild.builds.editor roles/cloudquotas.viewer roles/logging.viewer \
    "projects/$project/roles/pipelines_preflight"; do
    on_project "$member" "$role"
  done
  acting_as "$member" "$runner"
  acting_as "$member" "$builder"
  on_bucket "$member" roles/storage.objectUser
  on_repository "$member" roles/artifactregistry.reader pipelines-images
  on_repository "$member" roles/artifactregistry.writer pipelines-templates
  on_repository "$member" "projects/$project/roles/pipelines_untag" pipelines-templates
fi

# Last, since gcloud asks about conditions on every later grant: a build reads and writes below builds/ and sees no run.
prefix=projects/_/buckets/$project-pipelines/objects/builds/
gcloud storage buckets add-iam-policy-binding "$bucket" --member "serviceAccount:$builder" \
  --role roles/storage.objectUser \
  --condition "title=builds-only,expression=resource.name.startsWith(\"$prefix\")" >/dev/null

echo "Ready. Write the settings: vgp init --project $project --region $region"
