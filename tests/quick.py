# SPDX-License-Identifier: Apache-2.0
"""`pytest -m quick -n 2`, at most 90 s: the tests whose names match in whole after `test_`."""

from __future__ import annotations

ALL = ".*"
QUICK = {
    # the laws and their draws
    "test_laws": "golden.*|the_stream_maps.*|exact_law|planted_defects.*|a_hosts_mode.*|records",
    "test_laplace": "the_limits.*|tiers_agree.*|a_planted_defect.*|results_are_rounded_once|small_world.*|pmf.*",
    "test_gaussian": "the_plan.*|what_is_decided.*|a_planted_defect.*|pairs_that_depend.*|from_zcdp.*|sensitivity_rules|figures",
    "test_discrete_laplace": ALL,
    "test_discrete_gaussian": "thresholds.*|a_defective.*|rejected_proposals|acceptance.*|defective.*|parameters.*",
    "test_one_sided_geometric": ALL,
    "test_snapping": ALL,
    "test_exact": "roots.*|plans.*|a_hosts.*|one_sided_geometric|laplace_on_cells|gaussian_on_cells|digits_that_end_raise|flint.*",
    "test_stream": ALL,
    "test_self_check": "the_answers.*|every_instruction.*",
    "test_gof": ALL,
    # arrays, sums and what fails
    "test_arrays": "every_integer.*|sequences.*|every_shape|masked.*|.*overlap.*|disjoint.*|a_refusal.*|.*does_not_fit.*|no_message.*",
    "test_real_arrays": "both_floats.*|bounds.*|what_is_not_finite_is_refused|missing.*|a_refused_value.*|entropy.*|a_failure.*",
    "test_saturation": "the_narrow.*|the_wide.*|a_small_.*|open_draws.*|an_open_cell.*|a_failure_zeroes_out",
    "test_public_inputs": ALL,
    "test_constant_work": "every_release.*|every_sample.*|a_plan_that_forgets.*",
    "test_hostile": "good.*|planted_flaws.*",
    # choices, columns, records
    "test_above_threshold": ALL,
    "test_selection": "every_small.*|the_factor.*|monotonic.*|the_first.*|a_selection.*|what_it_promises|bad.*|no_entropy.*",
    "test_thresholded": "the_threshold.*|a_threshold.*|what_is_shown.*|a_hidden_key.*|what_it_promises|bad.*|a_label.*|what_one_unit.*",
    "test_small_worlds": "noisy_counts.*|the_key.*|counts_that.*",
    "test_randomized_response": "planted_words.*|undecided.*|coins.*|no_entropy.*|nothing_private.*",
    "test_bounded_histogram": "siphash.*|keys_of_the_choice|.*small_world.*",
    "test_bounded_rows": "rows_in_all.*|every_small_world.*|planted.*|parts.*|bad.*",
    "test_fixed_point_sum": "rounded_as.*|saturates.*|up_to.*|sensitivity.*|a_float_sum.*",
    # what is promised, and who keeps count
    "test_sensitivity": ALL,
    "test_guarantee": ALL,
    "test_composition": "sums.*|rhos.*|parallel.*|halves.*|the_least.*|bad_input",
    "test_accounting_units": "fifty.*|several.*|calibrate.*|what_cannot.*|keys_that.*",
    "test_parameters": ALL,
    "test_postprocess": ALL,
    "test_equals": ALL,
    "test_noise_source": ALL,
    "test_jobs": "sums_that.*|a_domain.*|a_folder.*|verify.*",
    "test_key": "each_label.*|a_key_file_is_32.*|the_encoding.*",
    "test_sealed": "one_changed.*|golden.*|which_refusals.*|a_loop.*|names_that.*|equal_blocks.*|all_tries.*",
    "test_ledger": "a_release_is_charged|beyond.*|what_is_refused.*|an_equal_part.*|a_damaged_or.*",
    # doors
    "test_random_bytes": "random_bytes|the_bytes.*|kinds.*|no_entropy",
    "test_bit_generator": "the_stream.*|numpy_on_top|what_is_refused",
    "test_adapters": "an_absent.*|versions.*|an_untested.*",
    "test_adapter_columns": "integers|reals",
    "test_adapter_pandas": "labels.*",
    "test_adapter_polars": "an_expression.*",
    "test_adapter_dlpack": "an_array.*",
    "test_adapter_opendp": "the_map.*",
    "test_adapter_diffprivlib": "a_mechanism_is.*|their_checks.*",
    "test_adapter_dp_accounting": "every_number.*|laplace",
    "test_adapter_pipeline_dp": "installs_nest|a_calibrated.*",
    "test_cli": "privatize.*|two_runs.*|wrong_parameters.*|every_mechanism_noises.*",
    "test_csv_text": ALL,
    "test_files": "csv_stays.*|npy_of_any.*",
    "test_atomic_write": "a_failure.*|an_existing.*",
    "test_audit": "events.*|clopper.*|parameters.*",
    "test_selftest": "every_check.*|closed_forms",
    "test_layers": "the_house.*",
    "test_tests": ALL,
}
